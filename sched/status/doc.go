// Package status serves a page that shows a scheduler at work, and the same as JSON:
// ranks with their load, classes with their waiters, how long these wait, and what was
// decided lately.
//
//	recent := status.NewRecent(100)
//	s, err := sched.New(config, sched.WithObserver(recent.Observe))
//	...
//	mux.Handle("/debug/turnstile", status.New(s, status.Config{Recent: recent}))
//
// The handler is read-only and answers GET and HEAD. It can be mounted under any
// path, with or without http.StripPrefix, behind a proxy that rewrites paths too:
// everything is served at the one path it is mounted at, told apart by the query.
//
//	/debug/turnstile             the page; JSON if the request accepts that and not HTML
//	/debug/turnstile?view=json   the JSON, a [Status]
//	/debug/turnstile?view=script the page's script
//	/debug/turnstile?view=style  the page's style
//
// The page keeps itself up to date. It loads nothing from elsewhere and runs under
// a Content-Security-Policy, which the handler sets, that allows only its own
// script and style. Ids and names are text to it, whatever they contain.
//
// The page shows request ids, endpoints and loads to every client that can reach it:
// protect it like the rest of your administration.
//
// An answer costs O(ranks × classes + waiting) and takes no turn: a scheduler
// that is held up can be looked at, and does not notice.
package status

package status

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Config says what the page shows. The zero value is valid.
type Config struct {
	// Title stands above the page; default "Turnstile".
	Title string
	// Recent has what was decided lately; nil leaves that out. Its Observe must be
	// given to the scheduler with sched.WithObserver.
	Recent *Recent
	// About says what the embedder knows of a worker, for example that its health
	// check fails; nil for nothing. It is called for each worker of each answer.
	About func(worker uint64) About
	// Notes says what else an operator should know now, for example that a file was not
	// taken; nil for nothing. Each is a sentence of the banner.
	Notes func() []string
	// Heads is how many of the waiters are shown of each class; 0 means 10, negative
	// none.
	Heads int
	// Refresh is how often the page looks again; 0 means every second. It is at
	// least 100 ms.
	Refresh time.Duration
}

// About is what the embedder knows of a worker.
type About struct {
	Worker uint64 `json:"worker"`
	// Name is how people call it.
	Name string `json:"name,omitempty"`
	// Reason says why it is as it is, for example "refuses connections", and Since
	// when that began; zero if it is not known.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Status is the JSON of the handler.
type Status struct {
	Title string `json:"title"`
	// Started is when the handler was made, by the system's clock.
	Started time.Time     `json:"started"`
	Uptime  time.Duration `json:"uptime_ns"` // since then
	sched.Snapshot
	// Workers are those of which Config.About knows something.
	Workers []About `json:"workers,omitempty"`
	// Notes are those of Config.Notes.
	Notes []string `json:"notes,omitempty"`
	// History is what became of the requests of each class in the last 5 minutes.
	History []History `json:"history"`
	// Failures are the last events that went wrong, Recent the last of all, both
	// newest first.
	Failures []Event `json:"failures"`
	Recent   []Event `json:"recent"`
}

var (
	//go:embed page.html
	pageText string
	//go:embed page.js
	script []byte
	//go:embed page.css
	style []byte

	page = template.Must(template.New("page").Parse(pageText))
)

// policy lets the page do what it does and nothing else: its own script and style,
// its own JSON, no frame but of its own origin.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

type handler struct {
	scheduler *sched.Scheduler
	config    Config
	started   time.Time
	page      []byte
}

// New returns a handler that shows a scheduler.
func New(s *sched.Scheduler, config Config) http.Handler {
	if config.Title == "" {
		config.Title = "Turnstile"
	}
	switch {
	case config.Heads == 0:
		config.Heads = 10
	case config.Heads < 0:
		config.Heads = 0
	}
	if config.Refresh == 0 {
		config.Refresh = time.Second
	}
	config.Refresh = max(config.Refresh, 100*time.Millisecond)
	h := &handler{scheduler: s, config: config, started: time.Now()}
	var b bytes.Buffer
	// Only strings and numbers are filled in, so this does not fail.
	if err := page.Execute(&b, map[string]any{
		"Title": config.Title, "Refresh": config.Refresh.Milliseconds(), "Recent": config.Recent != nil,
		"Version": s.Stats().Version,
	}); err != nil {
		b.Reset()
		b.WriteString("the page does not fill in; ?view=json has it all")
	}
	h.page = b.Bytes()
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", policy)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	view := r.URL.Query().Get("view")
	if view == "" {
		header.Set("Vary", "Accept")
		if accept := r.Header.Get("Accept"); strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html") {
			view = "json"
		}
	}
	switch view {
	case "":
		write(w, "text/html; charset=utf-8", h.page)
	case "json":
		data, err := json.Marshal(h.status())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		write(w, "application/json", append(data, '\n'))
	case "script":
		write(w, "text/javascript; charset=utf-8", script)
	case "style":
		write(w, "text/css; charset=utf-8", style)
	default:
		http.Error(w, "no such view: json, script, style, or none for the page", http.StatusNotFound)
	}
}

func write(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body) // a client that has gone cannot be told
}

func (h *handler) status() Status {
	recent := h.config.Recent
	status := Status{
		Title: h.config.Title, Started: h.started, Uptime: time.Since(h.started), Snapshot: h.scheduler.Snapshot(h.config.Heads),
		Recent: recent.Events(), Failures: recent.Failures(),
	}
	status.History = recent.History(status.At)
	if h.config.Notes != nil {
		for _, note := range h.config.Notes() {
			status.Notes = append(status.Notes, clip(note))
		}
	}
	if h.config.About != nil {
		status.Workers = h.about(status.Ranks)
	}
	for i := range status.Classes {
		for j := range status.Classes[i].Heads {
			head := &status.Classes[i].Heads[j]
			head.Request, head.Lane = clip(head.Request), clip(head.Lane)
		}
	}
	return status
}

// about asks for each worker once: ranks come by worker.
func (h *handler) about(ranks []sched.RankState) (all []About) {
	for i := range ranks {
		worker := ranks[i].Rank.Worker
		if i > 0 && ranks[i-1].Rank.Worker == worker {
			continue
		}
		a := h.config.About(worker)
		if a.Worker = worker; a != (About{Worker: worker}) {
			a.Name, a.Reason = clip(a.Name), clip(a.Reason)
			all = append(all, a)
		}
	}
	return all
}

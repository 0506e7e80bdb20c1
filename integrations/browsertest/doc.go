// Package browsertest holds the tests that need a real browser: it drives a
// headless Chromium over the pages the library serves. It is a module of its own,
// so that what drives the browser costs an embedder nothing, and has nothing but
// tests.
//
// Without a browser, and with -short, the tests are skipped; with BROWSER_REQUIRED
// set, as in CI, a missing one fails them. SCREENSHOTS names a directory to leave
// pictures in, for people to look at.
package browsertest

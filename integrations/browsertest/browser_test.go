package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for a condition on a machine with much else
// to do; one that holds up for so long is broken.
const patience = 3 * time.Minute

// browserPath finds a Chromium.
func browserPath(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes a while")
	}
	for _, name := range []string{os.Getenv("BROWSER"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	if os.Getenv("BROWSER_REQUIRED") != "" {
		t.Fatal("no browser: install chromium, or name one in BROWSER")
	}
	t.Skip("no browser: install chromium, or name one in BROWSER")
	return ""
}

// tab is a page in a fresh browser.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // guarded by mu: what the browser complained of
}

// open starts a browser and opens an address in it.
func open(t *testing.T, url string) *tab {
	t.Helper()
	path := browserPath(t)
	// Not t.TempDir: a test must not fail because a helper of the browser's still
	// writes there.
	profile, err := os.MkdirTemp("", "browsertest") //nolint:usetesting // see above
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	ctx, stopBrowser := chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.WindowSize(1360, 1000),
		chromedp.WSURLReadTimeout(patience), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), // it is small in containers
	)
	ctx, closeTab := chromedp.NewContext(ctx)
	b := &tab{T: t, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has gone
		closeTab()
		stopBrowser()
		cancel()
		_ = os.RemoveAll(profile) // what the browser left open stays in the temporary directory
	})
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(url)), "is %s a browser that works?", path)
	return b
}

// listen notes exceptions, errors and breaches of the page's policy.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("%+v", e.ExceptionDetails))
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError {
			b.problems = append(b.problems, fmt.Sprint(e.Entry.Source, ": ", e.Entry.Text, " ", e.Entry.URL))
		}
	}
}

// requireContent fails if the browser complained.
func (b *tab) requireContent() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b, b.problems)
}

// eval returns the value of an expression on the page.
func eval[V any](b *tab, expression string) V {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](expression))
	require.NoError(b, err, expression)
	return v
}

// await waits until an expression on the page is true. (The library's own way to
// poll builds a function from text, which the page's policy forbids.)
func (b *tab) await(expression string) {
	b.Helper()
	give := time.NewTimer(patience)
	defer give.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if eval[bool](b, expression) {
			return
		}
		select {
		case <-give.C:
			b.mu.Lock()
			defer b.mu.Unlock()
			b.Fatalf("never true: %s\nproblems: %v\npage: %s", expression, b.problems, eval[string](b, "document.body.innerText"))
		case <-look.C:
		}
	}
}

// awaitText waits until an element has a text.
func (b *tab) awaitText(selector, text string) {
	b.Helper()
	b.await(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent === %s)", selector, quoted(text)))
}

// screenshot leaves a picture, if somebody wants to see it.
func (b *tab) screenshot(name string) {
	b.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// scheme has the page think that the reader prefers light or dark.
func (b *tab) scheme(name string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	require.NoError(b, err)
}

// size has the page think that the screen is so large.
func (b *tab) size(width, height int64) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
	require.NoError(b, err)
}

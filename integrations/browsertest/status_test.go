package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/status"
)

const rules = `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 4096, bucket: long}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: short, quantum: 8192, prefill_busy_threshold: 4000, request_queue_limit_per_worker: 3}
  - {name: documents, policy_family: chat, cache_bucket: long, quantum: 4096, queue_policy: wspt, prefill_busy_threshold: 2000}
  - {name: batch, quantum: 1024, prefill_busy_threshold: 0, raw_isl_token_queue_limit_per_worker: 50000}
  - {name: interactive, quantum: 1024, prefill_busy_threshold: 6000, request_queue_limit_per_worker: 0}
`

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// pool is a scheduler with a status page.
type pool struct {
	*testing.T
	*sched.Scheduler
	page    http.Handler
	about   func(worker uint64) status.About // nil for nothing
	callers sync.WaitGroup
}

func newPool(t *testing.T, title string) *pool {
	t.Helper()
	browserPath(t) // skips before anything is set up
	file, err := policy.Parse([]byte(rules))
	require.NoError(t, err)
	recent := status.NewRecent(12)
	s, err := sched.New(sched.Config{BlockSize: 16, Policy: file}, sched.WithObserver(recent.Observe))
	require.NoError(t, err)
	p := &pool{T: t, Scheduler: s}
	p.page = status.New(s, status.Config{Title: title, Recent: recent, Refresh: 100 * time.Millisecond, About: func(worker uint64) status.About {
		if p.about == nil {
			return status.About{}
		}
		return p.about(worker)
	}})
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		p.callers.Wait()
	})
	return p
}

func (p *pool) workers(n int) {
	p.Helper()
	for i := range n {
		w := sched.Worker{
			ID: uint64(i + 1), Ranks: uint32(1 + i%2), Endpoint: fmt.Sprintf("http://gpu-%d:8000", i+1), TotalKVBlocks: 4000,
		}
		require.NoError(p, p.UpsertWorker(w))
	}
}

func (p *pool) book(r sched.Request) *sched.Booking {
	p.Helper()
	b, err := p.Schedule(p.Context(), &r)
	require.NoError(p, err)
	return b
}

// wait has a request stand in line until the test is over.
func (p *pool) wait(r sched.Request) {
	p.Helper()
	before := p.inLine()
	p.callers.Add(1)
	go func() {
		defer p.callers.Done()
		if b, err := p.Schedule(context.Background(), &r); err == nil {
			_ = b.Release()
		}
	}()
	require.Eventually(p, func() bool { return p.inLine() > before }, patience, time.Millisecond)
}

// inLine counts the requests that have their place in line, as the page shows them.
func (p *pool) inLine() (n int64) {
	for _, class := range p.Stats().Classes {
		n += class.Pending
	}
	return n
}

// serve mounts the page at a path and returns its address.
func (p *pool) serve(path string) string {
	mux := http.NewServeMux()
	mux.Handle(path, p.page)
	return p.start(mux) + path
}

func (p *pool) start(h http.Handler) string {
	server := httptest.NewServer(h)
	p.Cleanup(server.Close)
	return server.URL
}

func blocks(from, n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = uint64(from + i)
	}
	return hashes
}

// busy makes a pool that shows a bit of everything.
func busy(t *testing.T) *pool {
	p := newPool(t, "Turnstile: llama-70b")
	p.workers(5)
	pin := func(worker uint64) *sched.RankID { return &sched.RankID{Worker: worker} }
	p.book(sched.Request{ID: "chat-4711", ISL: 3000, Blocks: blocks(1, 1800), Pin: pin(1)})
	p.book(sched.Request{ID: "chat-4712", ISL: 5200, Blocks: blocks(5000, 900), Pin: pin(2)})
	p.book(sched.Request{ID: "doc-17", ISL: 9000, Blocks: blocks(9000, 3900), Pin: pin(3)})
	p.book(sched.Request{ID: "chat-4713", ISL: 4400, Pin: pin(5)})
	require.NoError(t, p.Release("chat-4713", 0))
	require.NoError(t, p.DrainWorker(4))
	require.NoError(t, p.SetOverloaded([]uint64{5}))
	for i := range 4 {
		p.wait(sched.Request{
			ID: fmt.Sprint("chat-48", i), ISL: int64(300 + 70*i), Pin: pin(uint64(2 + i%2)), Priority: uint32(i % 2),
			Due: time.Now().Add(time.Hour),
		})
	}
	p.wait(sched.Request{ID: "doc-18", ISL: 12_000, Allowed: []uint64{2, 3}, Excluded: []uint64{2}})
	p.wait(sched.Request{ID: "nightly-9", ISL: 800, Class: "batch", Pin: pin(1)})
	_, err := p.Schedule(t.Context(), &sched.Request{ID: "chat-4820", ISL: 1, Pin: pin(99)})
	require.ErrorIs(t, err, sched.ErrNoEndpoints)
	_, err = p.Schedule(t.Context(), &sched.Request{ID: "voice-1", ISL: 1, Class: "interactive", Pin: pin(3)})
	require.ErrorIs(t, err, sched.ErrQueueFull)
	return p
}

func TestPageShowsThePool(t *testing.T) {
	p := busy(t)
	// A proxy in front that knows the page by another path.
	inner, err := url.Parse(p.start(http.StripPrefix("/internal", p.page)))
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(inner)
		r.Out.URL.Path = "/internal"
	}}
	b := open(t, p.start(http.StripPrefix("/ops/deep", proxy))+"/ops/deep/status")
	b.awaitText("h1", "Turnstile: llama-70b")
	b.awaitText("#ranks td:first-child", "2/1")
	b.awaitText("#ranks td:nth-child(2)", "overloaded")
	b.awaitText("#ranks td:nth-child(2)", "draining")
	// Rank 3/0 is busy for all classes. The others are for some, or have nothing.
	b.awaitText("#ranks td:nth-child(2)", "busy")
	require.Equal(t, "3 of 7", tile(b, "ranks open"))
	b.awaitText("#ranks td:nth-child(3)", "5,200")
	b.awaitText("#ranks td:nth-child(4)", "3,900 of 4,000")
	b.awaitText("#ranks td:nth-child(6)", "chat, documents, batch, interactive") // 9,000 tokens
	b.awaitText("#classes td:last-child", "requests 4 of 15")
	b.awaitText("#classes td:last-child", "never queues")
	b.awaitText("#heads td:nth-child(3)", "doc-18")
	b.awaitText("#heads td:last-child", "workers 2 3, not workers 2")
	b.awaitText("#recent td:nth-child(2)", "rejected")
	b.awaitText("#recent td:nth-child(3)", "voice-1")
	b.awaitText("#recent td:last-child", "queue-full: limit requests: usage 0 of 0") // its id is in its column
	b.await(`document.getElementById("heads-empty").hidden && !document.getElementById("heads").hidden`)
	// In the order in which they would go.
	require.Equal(t, "chat-481 chat-483 chat-480 chat-482", eval[string](b,
		`[...document.querySelectorAll("#heads tbody tr")].filter((r) => r.cells[0].textContent === "chat").map((r) => r.cells[2].textContent).join(" ")`))
	// Bars have the length they say: 5,200 of 9,000.
	require.InDelta(t, 5200.0/9000, eval[float64](b, `(() => {
		const bar = document.querySelectorAll("#ranks tbody tr")[1].querySelector(".bar i");
		return parseFloat(bar.style.width) / 100;
	})()`), 0.001)
	b.requireContent()

	b.scheme("light")
	light := eval[string](b, "getComputedStyle(document.body).backgroundColor")
	b.screenshot("status-light")
	b.scheme("dark")
	require.NotEqual(t, light, eval[string](b, "getComputedStyle(document.body).backgroundColor"))
	b.screenshot("status-dark")
}

// tile returns what stands first in one of the totals.
func tile(b *tab, name string) string {
	b.Helper()
	return eval[string](b, fmt.Sprintf(`[...document.querySelectorAll("#totals div")]
		.find((d) => d.firstElementChild.textContent === %s).lastElementChild.firstElementChild.textContent`, quoted(name)))
}

// The page follows without being loaded again, says when it hears nothing, and
// picks up again.
func TestPageFollows(t *testing.T) {
	p := newPool(t, "follows")
	var away, served atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if away.Load() > 0 {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		p.page.ServeHTTP(w, r)
	})
	b := open(t, p.start(mux)+"/status")
	b.await(`!document.getElementById("ranks-empty").hidden && !document.getElementById("recent-empty").hidden`)
	eval[int](b, "window.loaded = 1")

	p.workers(2)
	b.awaitText("#ranks td:first-child", "2/1")
	first := p.book(sched.Request{ID: "first", ISL: 4500, Blocks: blocks(1, 100), Pin: &sched.RankID{Worker: 1}})
	b.awaitText("#ranks td:nth-child(3)", "4,500")
	b.awaitText("#recent td:nth-child(3)", "first")
	p.wait(sched.Request{ID: "second", ISL: 10, Pin: &sched.RankID{Worker: 1}})
	b.awaitText("#heads td:nth-child(3)", "second")
	// Who waits grows older.
	b.await(`(() => { const cell = document.querySelector("#heads td:nth-child(4)"); window.age ??= cell.textContent; return cell.textContent !== window.age; })()`)
	require.NoError(t, first.Release())
	b.await(`!document.getElementById("heads-empty").hidden && document.getElementById("heads").hidden`)
	b.awaitText("#ranks td:nth-child(3)", "0")

	away.Store(1)
	b.await(`document.getElementById("state").textContent === "no news: answered 503"`)
	away.Store(0)
	b.await(`document.getElementById("state").className === "good"`)

	eval[any](b, `document.getElementById("pause").click()`)
	require.Equal(t, "Go on", eval[string](b, `document.getElementById("pause").textContent`))
	p.book(sched.Request{ID: "third", ISL: 1})
	eval[any](b, `document.getElementById("pause").click()`)
	b.awaitText("#recent td:nth-child(3)", "third")

	require.NoError(t, p.UpsertWorker(sched.Worker{ID: 2, Ranks: 2, Endpoint: "gpu-2", Incarnation: "boot-7"}))
	b.awaitText("#ranks td:last-child", "gpu-2 · boot-7")
	require.NoError(t, p.SetAside(2, time.Hour))
	b.await(`[...document.querySelectorAll("#ranks td:nth-child(2)")].some((c) => /^aside until \d\d:\d\d:\d\d$/.test(c.textContent))`)
	require.NoError(t, p.RemoveWorker(2))
	b.await(`document.querySelectorAll("#ranks tbody tr").length === 1`)
	require.NoError(t, p.Close())
	b.await(`document.getElementById("state").textContent.startsWith("closed, ")`)
	require.Equal(t, 1, eval[int](b, "window.loaded")) // never loaded anew
}

// TestWorstFirst: the first line says what is worst, and the dot shows it.
func TestWorstFirst(t *testing.T) {
	p := newPool(t, "worst first")
	p.about = func(worker uint64) status.About {
		if worker != 2 {
			return status.About{}
		}
		return status.About{Name: "rack-7", Reason: "refuses connections", Since: time.Now().Add(-3 * time.Minute)}
	}
	b := open(t, p.serve("/status"))
	says := func(health, words string) {
		t.Helper()
		b.await(fmt.Sprintf(`document.getElementById("state").className === %s && document.querySelector("#banner p").textContent.includes(%s)`,
			quoted(health), quoted(words)))
	}
	has := func(selector, text string) {
		t.Helper()
		b.await(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%s))", selector, quoted(text)))
	}
	look := func(name string) {
		b.size(1360, 900)
		b.screenshot(name)
		b.scheme("dark")
		b.size(390, 844)
		b.screenshot(name + "-phone")
		require.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 390, "nothing sticks out on a phone")
		b.scheme("light")
	}
	says("bad", "No workers: every request is refused.")
	p.workers(4)
	says("good", "All is well")
	has("#uptime", "up ")
	look("status-healthy")

	require.NoError(t, p.SetAvailable([]uint64{1, 3, 4}))
	says("warn", "2 ranks of 6 cannot be used: 2 unavailable.")
	has("#ranks td.bad", "unavailable: refuses connections, for 3 min")
	has("#ranks td:last-child", "rack-7")
	look("status-one-dead")

	require.NoError(t, p.SetOverloaded([]uint64{1, 3, 4}))
	says("bad", "No rank can be used: ")
	look("status-all-dead")

	require.NoError(t, p.SetAvailable([]uint64{1, 2, 3, 4}))
	require.NoError(t, p.SetOverloaded(nil))
	says("good", "All is well")
	for worker := range uint64(4) {
		for rank := range uint32(1 + worker%2) {
			p.book(sched.Request{ID: fmt.Sprint("busy-", worker, rank), ISL: 20_000, Pin: &sched.RankID{Worker: worker + 1, Rank: rank}})
		}
	}
	has("#ranks td.calm", "busy")
	for i := range 8 {
		p.wait(sched.Request{ID: fmt.Sprint("chat-", i), ISL: 100})
	}
	says("good", "8 requests wait")
	has("#banner p", "the oldest for")
	for i := range 4 {
		p.wait(sched.Request{ID: fmt.Sprint("more-", i), ISL: 100})
	}
	_, err := p.Schedule(t.Context(), &sched.Request{ID: "one-too-many", ISL: 100})
	require.ErrorIs(t, err, sched.ErrQueueFull)
	says("warn", "Class chat is full: requests 12 of 12.")
	has("#banner li", "Refused in the last minute: chat 1.")
	has("#classes .curve title", "1 refused")
	look("status-overloaded")

	// What other schedulers cause.
	p.SetPeerLoads(7, []sched.CausedLoad{{Rank: sched.RankID{Worker: 3}, PrefillTokens: 1234, Requests: 2, Version: 1}})
	has("#peers td:nth-child(3)", "1,234")
	has("#ranks td:nth-child(5)", "3")
	p.DropPeer(7)
	b.await(`document.getElementById("peers-section").hidden`)

	// What failed stays on the page, whatever comes after.
	require.NoError(t, p.UpsertWorker(sched.Worker{ID: 5, Ranks: 1}))
	require.NoError(t, p.SetAvailable([]uint64{1, 2, 3, 4, 5}))
	b.await(`!document.getElementById("heads-empty").hidden`)
	b.await(`![...document.querySelectorAll("#recent td:nth-child(3)")].some((c) => c.textContent === "one-too-many")`)
	has("#failures td:nth-child(3)", "one-too-many")
}

// What a client chose as an id stays text.
func TestHostileIDsStayText(t *testing.T) {
	attack := `<img src=x onerror="window.pwned=1">"'</script><script>window.pwned=1</script>{{.}}`
	p := newPool(t, attack)
	require.NoError(t, p.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Endpoint: attack, Taints: []string{attack}}))
	p.book(sched.Request{ID: attack, ISL: 9000})
	p.wait(sched.Request{ID: "waits " + attack, ISL: 10, RequiredTaints: []string{attack}})
	_, err := p.Schedule(t.Context(), &sched.Request{ID: "refused " + attack, Pin: &sched.RankID{Worker: 4}})
	require.Error(t, err)

	b := open(t, p.serve("/status/"))
	b.awaitText("h1", attack)
	b.awaitText("#heads td:nth-child(3)", "waits "+attack)
	b.awaitText("#recent td:nth-child(3)", "refused "+attack)
	b.awaitText("#ranks td:last-child", attack)
	b.await("Number(document.documentElement.dataset.updates) >= 3")
	require.True(t, eval[bool](b, "window.pwned === undefined"))
	require.Zero(t, eval[int](b, `document.querySelectorAll("img").length`))
	require.Equal(t, 1, eval[int](b, `document.scripts.length`))
	b.requireContent()
	b.screenshot("status-hostile")
}

// The page goes on while the scheduler is under load, and does it no harm.
func TestPageUnderLoad(t *testing.T) {
	p := newPool(t, "under load")
	p.workers(40)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for caller := range 32 {
		p.callers.Add(1)
		go func() {
			defer p.callers.Done()
			for i := 0; ctx.Err() == nil; i++ {
				r := &sched.Request{
					ID: fmt.Sprint("load-", caller, "-", i), ISL: int64(200 + 97*(i%50)), Class: []string{"", "batch"}[i%2],
					Blocks: blocks(100*(i%7), 20), Pin: &sched.RankID{Worker: uint64(1 + (caller+i)%3)},
				}
				if b, err := p.Schedule(ctx, r); err == nil {
					assert.NoError(t, b.PrefillDone())
					assert.NoError(t, b.Release())
				}
			}
		}()
	}
	b := open(t, p.serve("/status"))
	b.await("Number(document.documentElement.dataset.updates) >= 3")
	admitted := `Number([...document.querySelectorAll("#totals div")].find((d) => d.firstElementChild.textContent === "admitted").lastElementChild.firstElementChild.textContent.replaceAll(",", ""))`
	before := eval[float64](b, admitted)
	b.await(fmt.Sprintf("Number(document.documentElement.dataset.updates) >= 10 && %s > %v", admitted, before))
	require.Equal(t, 60, eval[int](b, `document.querySelectorAll("#ranks tbody tr").length`))
	require.LessOrEqual(t, eval[int](b, `document.querySelectorAll("#recent tbody tr").length`), 12)
	require.LessOrEqual(t, eval[int](b, `document.querySelectorAll("#heads tbody tr").length`), 40)
	b.screenshot("status-load")
	b.requireContent()
	stop()
	p.callers.Wait()
	b.awaitText("#totals dd span", "0") // nobody waits
	require.Zero(t, p.Stats().Live)
}

package proxy_test

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
)

// What engines do that are sick, slow or new, and what becomes of requests.

// moody is an engine that fails while it is in the mood. It reads the request first.
type moody struct {
	fails func(w http.ResponseWriter)
	sick  atomic.Bool
	took  atomic.Int64
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	m.took.Add(1)
	if m.sick.Load() {
		m.fails(w)
		return
	}
	_, _ = io.WriteString(w, `{"well":true}`)
}

func answers(status int, retryAfter string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "no")
	}
}

// moods are the ways in which engines fail at once.
var moods = map[string]func(http.ResponseWriter){
	"500": answers(500, ""), "503": answers(503, ""), "429": answers(429, "1"),
	"drops": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
}

// flood sends 400 requests, 12 at a time, and returns how many were served.
func (r *rig) flood() (served int64) {
	var wg sync.WaitGroup
	var left, good atomic.Int64
	left.Store(400)
	for range 12 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				response, text := r.post("/v1/completions", `{"prompt":"x"}`, nil)
				if response.StatusCode == http.StatusOK && text == `{"well":true}` {
					good.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return good.Load()
}

func TestSomeEnginesFailAtOnce(t *testing.T) {
	t.Parallel()
	for name, fails := range moods {
		for _, pool := range []struct{ engines, sick int }{{4, 1}, {5, 3}} {
			for _, late := range []bool{false, true} { // they were well before
				if late && (name == "503" || name == "429" || pool.sick == 1) {
					continue // what was sound before matters only for what the request may have caused
				}
				t.Run(name+"/"+strconv.Itoa(pool.sick)+"/"+strconv.FormatBool(late), func(t *testing.T) {
					t.Parallel()
					engines := make([]moody, pool.engines)
					set := setup{aside: time.Hour}
					for i := range engines {
						engines[i].fails = fails
						set.backends = append(set.backends, backend(t, &engines[i]))
					}
					r := newRig(t, set)
					if late {
						require.EqualValues(t, 400, r.flood())
					}
					before := int64(0)
					for i := range pool.sick {
						before += engines[i].took.Load()
						engines[i].sick.Store(true)
					}
					assert.EqualValues(t, 400, r.flood())
					r.idle()
					if pool.sick == 1 {
						assert.LessOrEqual(t, engines[0].took.Load()-before, int64(12), "after the first failures it gets nothing")
					}
				})
			}
		}
	}
}

func TestNeverMoreThanHalfAreAside(t *testing.T) {
	t.Parallel()
	engines := make([]moody, 5)
	set := setup{aside: time.Hour}
	for i := range engines {
		engines[i].fails = moods["503"]
		engines[i].sick.Store(true)
		set.backends = append(set.backends, backend(t, &engines[i]))
	}
	r := newRig(t, set)
	response, text := r.post("/v1/completions", `{"prompt":"x"}`, nil)
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	assert.Equal(t, "backend_unavailable", problemOf(t, text).Code)
	assert.Equal(t, "5", response.Header.Get(proxy.HeaderTries))
	assert.Len(t, r.s.Stats().Aside, 2)
	assert.Len(t, r.fleet.Up(), 5)
	// Those that are aside are tried when there is nowhere else.
	engines[0].sick.Store(false)
	assert.EqualValues(t, 400, r.flood())
}

// A request by which engines break must not be shown to all of them.
func TestRequestThatBreaksEngines(t *testing.T) {
	t.Parallel()
	var set setup
	var broke atomic.Int64
	for range 8 {
		set.backends = append(set.backends, backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); string(body) == streamed {
				broke.Add(1)
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, `{"well":true}`)
		})))
	}
	r := newRig(t, set)
	require.EqualValues(t, 400, r.flood())
	for _, b := range r.fleet.Statuses() {
		r.fleet.Visit(b.Worker).Served() // the flood need not have come to all
	}
	response, _ := r.post("/v1/completions", streamed, nil)
	assert.Equal(t, http.StatusBadGateway, response.StatusCode)
	assert.EqualValues(t, 4, broke.Load())
	assert.EqualValues(t, 400, r.flood())
}

func TestEnginesOwnWordsAreKept(t *testing.T) {
	t.Parallel()
	sick := func(fails func(http.ResponseWriter)) fleet.Backend {
		m := &moody{fails: fails}
		m.sick.Store(true)
		return backend(t, m)
	}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		r := newRig(t, setup{backends: []fleet.Backend{sick(answers(status, "30")), sick(answers(status, "7")), sick(answers(status, ""))}})
		response, text := r.post("/v1/completions", `{"prompt":"x"}`, nil)
		assert.Equal(t, status, response.StatusCode, text)
		assert.Equal(t, "7", response.Header.Get("Retry-After"), "the least of those tried")
	}
	r := newRig(t, setup{backends: []fleet.Backend{sick(answers(500, ""))}})
	response, text := r.post("/v1/completions", `{"prompt":"x"}`, nil)
	assert.Equal(t, http.StatusInternalServerError, response.StatusCode)
	assert.Equal(t, "no", text)
}

func TestHungEngine(t *testing.T) {
	t.Parallel()
	for _, body := range []string{streamed, `{"prompt":"x"}`} {
		// How long the other engine takes depends on the machine.
		for timeout := 50 * time.Millisecond; ; timeout *= 2 {
			require.Less(t, timeout, patience)
			r := newRig(t, setup{
				backends: []fleet.Backend{backend(t, newGate()), engine(t)},
				config:   proxy.Config{FirstByte: timeout, FirstByteWhole: timeout},
			})
			response, _ := r.post("/v1/completions", body, nil)
			r.idle()
			if response.StatusCode == http.StatusOK {
				assert.Equal(t, "2/0", response.Header.Get(proxy.HeaderWorker))
				break
			}
		}
	}
}

func TestRequestsLeaveAnEngineThatIsGivenUp(t *testing.T) {
	t.Parallel()
	g := newGate()
	hung := backend(t, g)
	r := newRig(t, setup{backends: []fleet.Backend{hung, engine(t)}})
	begun, from := r.begin(t.Context(), g)
	<-g.came
	require.Equal(t, "1/0", begun.Header.Get(proxy.HeaderWorker))
	// It has one request: the other worker would be chosen for the next.
	require.NoError(t, r.s.SetAvailable([]uint64{1}))
	moved := make(chan string)
	go func() {
		response, _ := r.post("/v1/completions", streamed, nil)
		moved <- response.Header.Get(proxy.HeaderWorker)
	}()
	<-g.came
	r.fail(hung)
	assert.Equal(t, "2/0", <-moved)
	// What has begun to answer stays: only silence is given up.
	g.say <- "data: {\"n\":2}\n\n" + end
	assert.Equal(t, `data: {"n":2}`, line(t, from))
	all(t, begun)
	r.idle()
}

func TestChecksThatFailWhileRequestsSucceed(t *testing.T) {
	t.Parallel()
	log := make(chan string, 1000)
	backends := []fleet.Backend{engine(t), engine(t), engine(t)}
	r := newRig(t, setup{backends: backends, fleetLog: lines(log)})
	r.checks.fail(backends...)
	for range 5 {
		r.fleet.CheckHealth(t.Context())
		response, _ := r.post("/v1/completions", streamed, nil)
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	assert.True(t, r.fleet.Doubted())
	assert.Len(t, r.fleet.Up(), 3)
	for said := ""; !strings.Contains(said, "the checks are not believed"); {
		said = <-log
		require.NotContains(t, said, "backend down")
	}
	r.mend()
	assert.False(t, r.fleet.Doubted())
	// Without a request that succeeds, they are believed.
	r.fail(backends...)
	assert.Empty(t, r.fleet.Up())
	response, _ := r.post("/v1/completions", streamed, nil)
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	r.mend()
	assert.Len(t, r.fleet.Up(), 3)
}

func TestNoTrafficBeforeTheFirstSuccess(t *testing.T) {
	t.Parallel()
	g := newGate()
	old, joining := engine(t), backend(t, g)
	r := newRig(t, setup{backends: []fleet.Backend{old}})
	r.checks.fail(joining)
	require.NoError(t, r.fleet.Set([]fleet.Backend{joining, old}))
	for range 20 {
		response, _ := r.post("/v1/completions", streamed, nil)
		assert.Equal(t, "1/0", response.Header.Get(proxy.HeaderWorker))
	}
	r.mend()
	require.NoError(t, r.fleet.Set([]fleet.Backend{joining}))
	response, _ := r.begin(t.Context(), g)
	assert.Equal(t, "2/0", response.Header.Get(proxy.HeaderWorker))
	g.say <- end
	all(t, response)
}

func TestAllBackendsAreReplacedWhileRequestsWait(t *testing.T) {
	t.Parallel()
	g := newGate()
	old := backend(t, g)
	// Room for all in line; and no endpoint_wait, which would hide a moment without.
	r := newRig(t, setup{backends: []fleet.Backend{old}, policy: `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 0}
`})
	first := make(chan string)
	ask := func(to chan<- string) {
		response, text := r.post("/v1/completions", streamed, nil)
		to <- response.Header.Get(proxy.HeaderWorker) + text[:min(5, len(text))]
	}
	go ask(first)
	<-g.came
	others := make(chan string)
	for range 10 {
		go ask(others)
	}
	r.waiting(10)
	fresh := engine(t)
	r.checks.fail(fresh)
	require.NoError(t, r.fleet.Set([]fleet.Backend{fresh}))
	r.waiting(10) // the new one has not answered a check: the old one goes on
	r.mend()
	for range 10 {
		assert.Equal(t, "2/0data:", <-others)
	}
	g.say <- streamHead
	g.say <- "data: 1\n\n" + end
	assert.Equal(t, "1/0data:", <-first, "and finishes what it had")
	r.idle()
	r.fleet.CheckHealth(t.Context())
	assert.Len(t, r.fleet.Statuses(), 1)
}

func TestChangedAddressIsAnotherProcess(t *testing.T) {
	t.Parallel()
	g := newGate()
	old, fresh := backend(t, g), engine(t)
	old.Name, fresh.Name = "gpu", "gpu"
	r := newRig(t, setup{backends: []fleet.Backend{old}})
	begun, from := r.begin(t.Context(), g)
	require.NoError(t, r.fleet.Set([]fleet.Backend{fresh}))
	for _, load := range r.s.Loads() {
		assert.Equal(t, load.Rank.Worker == 1, load.Requests == 1, "the new process has nothing of the old one's load")
	}
	response, _ := r.post("/v1/completions", streamed, nil)
	assert.Equal(t, "2/0", response.Header.Get(proxy.HeaderWorker))
	g.say <- "data: {\"n\":2}\n\n" + end
	assert.Equal(t, `data: {"n":2}`, line(t, from), "which is not cut short")
	all(t, begun)
}

// shipped is the policy that the demo and the README start with.
func shipped(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../policy.yaml")
	require.NoError(t, err)
	return string(text)
}

func TestShippedPolicyHoldsNoPlainAnswersBack(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := backend(t, g)
	b.MaxBatchedTokens = 8192
	r := newRig(t, setup{policy: shipped(t), backends: []fleet.Backend{b}})
	done := make(chan int)
	for range 8 {
		go func() {
			response, _ := r.post("/v1/completions", `{"prompt":"hello"}`, nil)
			done <- response.StatusCode
		}()
	}
	for range 8 {
		<-g.came // all are at the engine before one is answered
	}
	for range 8 {
		g.say <- "{}" + end
		assert.Equal(t, http.StatusOK, <-done)
	}
}

func TestShippedPolicyOutlivesAMomentWithoutEngines(t *testing.T) {
	t.Parallel()
	b := engine(t)
	r := newRig(t, setup{policy: shipped(t), backends: []fleet.Backend{b}})
	r.fail(b)
	require.Empty(t, r.fleet.Up())
	done := make(chan int)
	for range 10 {
		go func() {
			response, _ := r.post("/v1/completions", `{"prompt":"hello"}`, nil)
			done <- response.StatusCode
		}()
	}
	r.waiting(10)
	r.mend()
	for range 10 {
		assert.Equal(t, http.StatusOK, <-done)
	}
}

func TestEngineThatRestartsBetweenChecks(t *testing.T) {
	t.Parallel()
	b := engine(t)
	r := newRig(t, setup{backends: []fleet.Backend{b}})
	expected := func(text, more string) int {
		t.Helper()
		body := strings.Replace(chatBody(false, text, 10), "{", "{"+more, 1)
		response, _ := r.post("/v1/chat/completions", body, nil)
		require.Equal(t, http.StatusOK, response.StatusCode)
		n, err := strconv.Atoi(response.Header.Get(proxy.HeaderCached))
		require.NoError(t, err)
		return n
	}
	for _, text := range []string{"one", "two"} {
		assert.Zero(t, expected(text, ""))
		assert.Positive(t, expected(text, ""))
	}
	assert.Zero(t, expected("one", `"cache_salt":"mine",`), "salted prompts share nothing")
	for _, path := range []string{"/kill", "/revive"} { // nobody notices
		response, err := http.Post(b.URL+path, "", nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	assert.Positive(t, expected("one", ""), "as was believed")
	assert.Zero(t, expected("two", ""), "the engine said that nothing was cached")
	assert.Positive(t, expected("two", ""))
}

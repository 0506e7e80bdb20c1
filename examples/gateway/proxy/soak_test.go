package proxy_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
)

var soak = flag.Duration("soak", time.Second, "how long TestSoak lasts")

// weathered is an engine that dies, hangs, restarts under its name with an empty cache,
// refuses, fails and slows down.
type weathered struct {
	engine atomic.Pointer[simengine.Engine]
	mood   atomic.Int64
}

const (
	isWell = iota
	isDead
	isHung
	isRefusing
	isFailing
	isSlow
	states
)

func (m *weathered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch m.mood.Load() {
	case isDead:
		panic(http.ErrAbortHandler)
	case isHung:
		_, _ = io.Copy(io.Discard, r.Body) // or the server would not notice that the client has gone
		<-r.Context().Done()
		return
	case isRefusing:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case isFailing:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case isSlow:
		time.Sleep(20 * time.Millisecond)
	}
	m.engine.Load().ServeHTTP(w, r)
}

// change has the engine take another mood; it is well half of the time. One that was
// dead comes back empty.
func (m *weathered) change(random *rand.Rand) {
	next := int64(isWell)
	if random.IntN(2) == 0 {
		next = random.Int64N(states)
	}
	if m.mood.Swap(next) == isDead {
		m.engine.Store(simengine.New(simengine.Config{Model: "m"}))
	}
}

// TestSoak: whatever the engines do, every client that waits is answered, and at the
// end nothing is booked and no goroutine is left.
//
//	go test -race ./examples/gateway/proxy -run TestSoak -soak 5m -timeout 0 -v
func TestSoak(t *testing.T) {
	t.Parallel()
	engines, backends := make([]*weathered, 4), make([]fleet.Backend, 4)
	for i := range engines {
		engines[i] = &weathered{}
		engines[i].engine.Store(simengine.New(simengine.Config{Model: "m", PerToken: 100 * time.Microsecond}))
		backends[i] = backend(t, engines[i])
	}
	r := newRig(t, setup{
		policy: strings.ReplaceAll(oneAtATime, "per_worker: 1}", "per_worker: 8}"), backends: backends, aside: time.Millisecond,
		config: proxy.Config{FirstByte: 200 * time.Millisecond, FirstByteWhole: 200 * time.Millisecond, Timeout: 5 * time.Second, KeepAlive: 50 * time.Millisecond},
	})
	var clients, weather sync.WaitGroup
	over := make(chan struct{})
	weather.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-over:
				return
			case <-time.After(30 * time.Millisecond):
				engines[random.IntN(len(engines))].change(random)
				r.fleet.CheckHealth(t.Context())
			}
		}
	})
	var answered sync.Map // by status, *atomic.Int64
	deadline := time.Now().Add(*soak)
	for client := range 16 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(client)))
			for i := 0; time.Now().Before(deadline); i++ {
				if random.IntN(5) == 0 {
					r.stormy(random, i)
					continue
				}
				response, err := r.send(t.Context(), http.MethodPost, "/v1/chat/completions",
					chatBody(i%2 == 0, fmt.Sprint(random.IntN(5)), 1+random.IntN(9)), nil)
				if !assert.NoError(t, err, "a client got no answer") {
					return
				}
				_, _ = io.Copy(io.Discard, response.Body) // it may break off, with an event that says so
				_ = response.Body.Close()
				assert.Contains(t, []int{200, 429, 500, 502, 503, 504}, response.StatusCode)
				n, _ := answered.LoadOrStore(response.StatusCode, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			}
		})
	}
	clients.Wait()
	close(over)
	weather.Wait()
	for _, e := range engines {
		e.mood.Store(isWell)
	}
	r.idle()
	served := int64(0)
	answered.Range(func(status, n any) bool {
		t.Logf("answered %v: %d", status, n.(*atomic.Int64).Load())
		if status == http.StatusOK {
			served = n.(*atomic.Int64).Load()
		}
		return true
	})
	require.Positive(t, served)
}

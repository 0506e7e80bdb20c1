package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
)

// unreliable is an engine that fails now and then, in each way there is.
type unreliable struct {
	engine   http.Handler
	requests atomic.Int64
}

func (u *unreliable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch u.requests.Add(1) % 13 {
	case 3:
		w.WriteHeader(http.StatusServiceUnavailable)
	case 6:
		panic(http.ErrAbortHandler)
	case 9:
		u.engine.ServeHTTP(&breaking{ResponseWriter: w, left: 3}, r)
	default:
		u.engine.ServeHTTP(w, r)
	}
}

// breaking breaks off after a few writes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return b.ResponseWriter.Write(p)
}

func (b *breaking) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// Engines that fail, clients that leave and backends that come and go: whatever
// happens to a request, nothing of it is left.
func TestNothingIsLeftAfterAStorm(t *testing.T) {
	t.Parallel()
	var backends []fleet.Backend
	for range 3 {
		backends = append(backends, backend(t, &unreliable{engine: simengine.New(simengine.Config{Model: "m"})}))
	}
	r := newRig(t, setup{policy: strings.ReplaceAll(oneAtATime, "per_worker: 1}", "per_worker: 8}"), backends: backends})
	var clients, churn sync.WaitGroup
	over := make(chan struct{})
	churn.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			assert.NoError(t, r.fleet.Set(backends[:1+i%3]))
			r.fleet.CheckHealth(t.Context()) // removes what is drained; the engines are healthy, more or less
			if loads := r.s.Loads(); i%5 == 4 && len(loads) > 0 {
				_ = r.s.RemoveWorker(loads[0].Rank.Worker) // with what it has
			}
		}
	})
	for client := range 12 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(client)))
			for i := range 25 {
				r.stormy(random, i)
			}
		})
	}
	clients.Wait()
	close(over)
	churn.Wait()
	r.idle()
}

// stormy sends a request, and perhaps does not wait for all of its answer.
func (r *rig) stormy(random *rand.Rand, i int) {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	impatient := random.IntN(3) == 0
	if impatient && random.IntN(2) == 0 {
		go cancel()
	}
	response, err := r.send(ctx, http.MethodPost, "/v1/chat/completions", chatBody(i%2 == 0, fmt.Sprint(random.IntN(5)), random.IntN(9)), nil)
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	assert.Contains(r.t, []int{200, 429, 500, 502, 503, 504}, response.StatusCode)
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if impatient {
			return
		}
	}
}

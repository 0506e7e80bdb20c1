package endpointpicker_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
)

// TestEnvoyManyStreams: the documented file lets 2,000 streams be open at once, more than
// Envoy does by default, and when their clients leave nothing stays booked.
func TestEnvoyManyStreams(t *testing.T) {
	const streams = 2000
	p := newPool(t, "", endpointpicker.Config{})
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	var failed atomic.Int64
	for range streams {
		all.Go(func() {
			response, err := p.send(ctx, "hold=events", small)
			if err != nil {
				if ctx.Err() == nil {
					failed.Add(1)
				}
				return
			}
			if response.StatusCode != http.StatusOK {
				failed.Add(1)
			}
			<-ctx.Done()
			_ = response.Body.Close()
		})
	}
	require.Eventually(t, func() bool {
		return p.engines[0].held.Load()+p.engines[1].held.Load()+failed.Load() == streams
	}, time.Minute, time.Millisecond)
	require.Zero(t, failed.Load())
	require.EqualValues(t, streams, p.s.Stats().Live)
	leave()
	all.Wait()
	require.Zero(t, failed.Load())
	p.held(0)
	p.idle()
}

// TestEnvoyStorm: one client in five leaves in the middle; all others are served whole.
func TestEnvoyStorm(t *testing.T) {
	requests, callers := 10_000, 50
	if testing.Short() {
		requests = 1000
	}
	p := newPool(t, "", endpointpicker.Config{})
	var next, served atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(requests); n = next.Add(1) {
				ctx, leave := context.WithCancel(context.Background())
				query := "events=3"
				if n%5 == 0 {
					query = "hold=events"
				}
				response, err := p.send(ctx, query, small)
				if assert.NoError(t, err) && assert.Equal(t, http.StatusOK, response.StatusCode) {
					if n%5 == 0 {
						leave()
						_ = response.Body.Close()
					} else if _, err := readAll(response); assert.NoError(t, err) {
						served.Add(1)
					}
				}
				leave()
			}
		})
	}
	all.Wait()
	require.EqualValues(t, requests-requests/5, served.Load())
	p.held(0)
	p.idle()
}

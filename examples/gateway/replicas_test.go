package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas"
)

func TestReplicaFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string]string{
		"at least 1":       "-demo -replicas 0",
		"is for -demo":     "-backend http://x -replicas 2",
		"no other flag":    "-demo -replicas 2 -replica a",
		"-replica is":      "-demo -replica-nats nats://x",
		"-replica-nats go": "-demo -replica a -replica-nats nats://x -replica-seeds y:1",
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want)
	}
}

// Three gateways behind one address see each other. One that is killed under load costs
// the answers in its hands; nothing fails at the others, and it can come back.
func TestThreeGatewaysOfWhichOneDies(t *testing.T) {
	t.Parallel()
	r := start(t, "-demo", "-replicas", "3")
	peers := func() (peers []int) {
		response, err := r.client.Get(r.url + "/replicas")
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		var stats []replicas.Stats
		require.NoError(t, json.NewDecoder(response.Body).Decode(&stats))
		for i := range stats {
			peers = append(peers, len(stats[i].Peers))
		}
		return peers
	}
	r.until("all know all", func() bool { return fmt.Sprint(peers()) == "[2 2 2]" })

	stop := make(chan struct{})
	var load sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	for n := range 6 {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprintf(`{"model": "demo", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello %d %d"}]}`, n, i)
				response, err := r.client.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				gateway := response.Header.Get("X-Turnstile-Gateway")
				mu.Lock()
				answers[fmt.Sprintf("%s %d", gateway, response.StatusCode)]++
				mu.Unlock()
			}
		})
	}
	count := func(what string) int {
		mu.Lock()
		defer mu.Unlock()
		return answers[what]
	}
	r.until("all answer", func() bool { return count("a 200") > 0 && count("b 200") > 0 && count("c 200") > 0 })
	post := func(path string) {
		response, err := r.client.Post(r.url+path, "", nil)
		require.NoError(t, err)
		_ = response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	post("/replicas/b/kill")
	r.until("the others have dropped it", func() bool { return fmt.Sprint(peers()) == "[1 1]" })
	before := count("b 200")
	post("/replicas/b/revive")
	r.until("it is back", func() bool { return fmt.Sprint(peers()) == "[2 2 2]" && count("b 200") > before })
	close(stop)
	load.Wait()
	for what, n := range answers {
		require.True(t, strings.HasSuffix(what, " 200") || strings.HasPrefix(what, "b "), "%s: %d", what, n)
	}
	r.client.CloseIdleConnections()
	r.stop()
	require.NoError(t, <-r.done)
}

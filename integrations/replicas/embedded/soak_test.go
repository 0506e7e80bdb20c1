package embedded_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var soak = flag.Duration("soak", 0, "how long TestSoak runs; go test needs -timeout 0 beside it")

// killEvery is the time between two deaths in a soak.
const killEvery = 20 * time.Second

// Three replicas under load, of which one is killed every 20 s and started again some
// seconds later, while connections between the others break: all views are exactly zero
// at the end.
//
//	go test ./integrations/replicas/embedded -run TestSoak -soak 10m -timeout 0 -v
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("only with -soak")
	}
	c := newCluster(t, 3)
	for end := time.Now().Add(*soak); time.Until(end) > 0; {
		at := rand.IntN(len(c.gateways))
		c.kill(at)
		time.Sleep(time.Duration(rand.Int64N(int64(4 * time.Second)))) // also less than it takes to be noticed
		c.start(at)
		c.until("all see all again", c.allSeeAll)
		c.link((at+1)%3, (at+2)%3).drop()
		time.Sleep(min(killEvery, time.Until(end)))
	}
	c.end()
}

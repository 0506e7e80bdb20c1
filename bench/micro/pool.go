package micro

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

const (
	blockSize    = 16
	promptBlocks = 24
	promptTokens = promptBlocks*blockSize + blockSize/2
	sharedBlocks = 4 // of the system prompt
	overlapRanks = 3
	promptsEach  = 4 // of a caller
)

// rank returns the id of the i-th rank: workers of one rank, from 1.
func rank(i int) sched.RankID { return sched.RankID{Worker: uint64(i) + 1} }

// workers returns n workers of one rank.
func workers(n int) []sched.Worker {
	out := make([]sched.Worker, n)
	for i := range out {
		out[i] = sched.Worker{ID: uint64(i) + 1, Ranks: 1, Endpoint: "http://worker-" + strconv.Itoa(i+1)}
	}
	return out
}

// build makes an engine with ranks.
func (e Engine) build(policy string, ranks int) (engine.Engine, error) {
	return e.buildFrom(Config{PolicyYAML: policy}, workers(ranks))
}

// buildFrom makes an engine with workers.
func (e Engine) buildFrom(c Config, workers []sched.Worker) (engine.Engine, error) {
	c.BlockSize = blockSize
	eng, err := e.Build(c)
	if err != nil {
		return nil, err
	}
	if err := eng.SetWorkers(workers); err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return eng, nil
}

// finish releases bookings, checks that nothing is left, and closes.
func finish(e engine.Engine, held []engine.Booking) error {
	var err error
	for _, b := range held {
		if e := b.Release(); e != nil && !errors.Is(e, sched.ErrUnchanged) {
			err = e
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if e := e.Settle(ctx); e != nil {
		err = errors.Join(err, e)
	}
	if s := e.Stats(); s.Live != 0 || s.Waiting != 0 {
		err = errors.Join(err, fmt.Errorf("left over: %d bookings, %d waiting", s.Live, s.Waiting))
	}
	for _, l := range e.Loads() {
		if l.PrefillTokens != 0 || l.Blocks != 0 || l.Requests != 0 {
			err = errors.Join(err, fmt.Errorf("left over: %+v", l))
			break
		}
	}
	return errors.Join(err, e.Close())
}

// hashes returns n block hashes that follow shared ones.
func hashes(r *rand.Rand, shared, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		if out[i] = r.Uint64(); i < shared {
			out[i] = uint64(i) + 1
		}
	}
	return out
}

// prompts returns the requests of each caller: prompts of 24 blocks, of which
// the first may be shared by all, cached in part on three ranks.
func prompts(callers, ranks, shared int) [][]sched.Request {
	r := rand.New(rand.NewPCG(1, uint64(callers)<<32|uint64(ranks)))
	out := make([][]sched.Request, callers)
	for c := range out {
		for i := range promptsEach {
			req := sched.Request{
				ID: fmt.Sprintf("c%d-%d", c, i), ISL: promptTokens, Blocks: hashes(r, shared, promptBlocks),
			}
			for len(req.Overlaps) < min(overlapRanks, ranks) {
				o := sched.Overlap{Rank: rank(r.IntN(ranks)), Device: float64(sharedBlocks + r.IntN(promptBlocks-sharedBlocks))}
				o.Host = float64(r.IntN(promptBlocks - int(o.Device) + 1))
				fresh := true
				for _, other := range req.Overlaps {
					fresh = fresh && other.Rank != o.Rank
				}
				if fresh {
					req.Overlaps = append(req.Overlaps, o)
				}
			}
			out[c] = append(out[c], req)
		}
	}
	return out
}

// promptsOnce defers making prompts until the row runs, and then keeps them.
func promptsOnce(callers, ranks, shared int) func() [][]sched.Request {
	return sync.OnceValue(func() [][]sched.Request { return prompts(callers, ranks, shared) })
}

// standing books one request on each rank, so that ranks differ in load: prompts
// of different lengths, half of them computed. The first shared blocks of each
// are those that all prompts share.
func standing(e engine.Engine, ranks, shared int) ([]engine.Booking, error) {
	r := rand.New(rand.NewPCG(2, uint64(ranks)))
	held := make([]engine.Booking, 0, ranks)
	for i := range ranks {
		blocks := hashes(r, shared, shared+1+r.IntN(8))
		to := rank(i)
		b, err := e.Schedule(context.Background(), &sched.Request{
			ID: "standing-" + strconv.Itoa(i), ISL: int64(len(blocks)) * blockSize, Blocks: blocks, Pin: &to,
		})
		if err == nil {
			held = append(held, b)
			if i%2 == 0 {
				err = b.PrefillDone()
			}
		}
		if err != nil {
			return held, err
		}
	}
	return held, nil
}

// contexts gives each caller a context of its own, as each request of a server
// has, and one function that ends all.
func contexts(n int) (out []context.Context, cancel func()) {
	ends := make([]context.CancelFunc, n)
	out = make([]context.Context, n)
	for i := range out {
		out[i], ends[i] = context.WithCancel(context.Background())
	}
	return out, func() {
		for _, end := range ends {
			end()
		}
	}
}

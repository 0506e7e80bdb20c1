package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Settings say how large and how long.
type Settings struct {
	Replicas, Ranks int
	// Prefill is the mean time for which a request has its rank, drawn anew for each.
	Prefill time.Duration
	// Each is how long each measurement runs.
	Each time.Duration
	// CPU returns the processor time that the process has used.
	CPU func() time.Duration
}

// Result is what was measured.
type Result struct {
	Settings Settings
	// Quiet is the time from a booking until it counts at a peer, sorted, while nothing
	// else is done; Busy while all replicas book.
	Quiet, Busy []time.Duration
	// Bookings and Messages are of the busy time, in a second; a message is counted
	// where it is received. PerMessage is the CPU that one costs over all, servers
	// included: what is used beyond the same bookings without peers.
	Bookings, Messages float64
	PerMessage         time.Duration
	Doubled            []Doubled
}

// Doubled is how many bookings met another on their rank, where one is the limit.
type Doubled struct {
	Load             float64 // share of the ranks' time
	Shared           bool
	Bookings, Double int
	// Most is the most that a rank had at once.
	Most int64
}

// Share returns the part that was doubled.
func (d *Doubled) Share() float64 { return float64(d.Double) / float64(max(1, d.Bookings)) }

// loads are those at which doubled bookings are counted.
var loads = []float64{0.5, 0.85}

// Measurements returns how many there are, each of Settings.Each.
func Measurements() int { return 3 + 2*len(loads) }

// Run measures. Begin is called before each measurement with what it is.
func Run(ctx context.Context, s Settings, begin func(what string)) (*Result, error) {
	r := &Result{Settings: s}
	begin("visibility, nothing else to do")
	if err := r.quiet(ctx); err != nil {
		return nil, err
	}
	begin("visibility, all book")
	if err := r.busy(ctx); err != nil {
		return nil, err
	}
	for _, load := range loads {
		for _, shared := range []bool{false, true} {
			begin("doubled bookings")
			d, err := s.doubled(ctx, load, shared)
			if err != nil {
				return nil, err
			}
			r.Doubled = append(r.Doubled, d)
		}
	}
	return r, ctx.Err()
}

// probe books one after the other on ranks of its own, each with another number of
// tokens, by which it is known where it arrives.
type probe struct {
	ranks uint64
	sent  [1 << 14]atomic.Int64 // by tokens: when it was booked, as nanoseconds since began
	began time.Time

	mu    sync.Mutex
	waits []time.Duration
}

// seen notes what arrived. The probe's ranks are the first.
func (p *probe) seen(loads []sched.CausedLoad) {
	now := time.Since(p.began)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range loads {
		l := &loads[i]
		if l.Rank.Worker > p.ranks || l.PrefillTokens <= 0 || l.PrefillTokens >= int64(len(p.sent)) {
			continue
		}
		if sent := p.sent[l.PrefillTokens].Load(); sent > 0 {
			p.waits = append(p.waits, now-time.Duration(sent))
		}
	}
}

// run books every two milliseconds or so until the time is over.
func (p *probe) run(ctx context.Context, s *sched.Scheduler, length time.Duration) error {
	held := make([]*sched.Booking, p.ranks)
	defer func() {
		for _, b := range held {
			if b != nil {
				_ = b.Release()
			}
		}
	}()
	for i := 1; i < len(p.sent) && time.Since(p.began) < length && ctx.Err() == nil; i++ {
		at := i % len(held)
		if held[at] != nil {
			_ = held[at].Release()
		}
		// Some pause, so that the release is not told with the booking that follows.
		time.Sleep(time.Duration(1500+rand.IntN(1000)) * time.Microsecond)
		p.sent[i].Store(int64(time.Since(p.began)))
		b, err := s.Schedule(ctx, &sched.Request{ID: fmt.Sprint("probe-", i), ISL: int64(i), Pin: &sched.RankID{Worker: uint64(at + 1)}})
		if err != nil {
			return err
		}
		held[at] = b
	}
	return nil
}

func (p *probe) sorted() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.waits)
	return p.waits
}

const probed = 4 // ranks of the probe

func (r *Result) quiet(ctx context.Context) error {
	probe := &probe{ranks: probed, began: time.Now()}
	p, err := open(ctx, r.Settings.Replicas, r.Settings.Ranks, "", true, probe.seen)
	if err != nil {
		return err
	}
	probe.began = time.Now()
	err = probe.run(ctx, p.schedulers[0], r.Settings.Each)
	time.Sleep(20 * time.Millisecond)
	r.Quiet = probe.sorted()
	if closed := p.close(); err == nil {
		err = closed
	}
	return err
}

// busy has all replicas book on all ranks but the probe's, first without peers.
func (r *Result) busy(ctx context.Context) error {
	s := r.Settings
	var cpu [2]float64 // seconds for each second
	for _, shared := range []bool{false, true} {
		probe := &probe{ranks: probed, began: time.Now()}
		p, err := open(ctx, s.Replicas, s.Ranks, "", shared, probe.seen)
		if err != nil {
			return err
		}
		received, used, began := p.received(), s.CPU(), time.Now()
		probe.began = began
		var bookings atomic.Int64
		var all sync.WaitGroup
		for _, scheduler := range p.schedulers {
			all.Go(func() { bookings.Add(work(ctx, scheduler, s.Ranks, s.Each)) })
		}
		if err = probe.run(ctx, p.schedulers[0], s.Each); err != nil {
			return err
		}
		all.Wait()
		took := time.Since(began).Seconds()
		if shared {
			cpu[1] = (s.CPU() - used).Seconds() / took
			r.Messages = float64(p.received()-received) / took
			r.Bookings = float64(bookings.Load()) / took
			r.Busy = probe.sorted()
		} else {
			cpu[0] = (s.CPU() - used).Seconds() / took
		}
		if err := p.close(); err != nil {
			return err
		}
	}
	r.PerMessage = time.Duration(max(0, cpu[1]-cpu[0]) / max(1, r.Messages) * float64(time.Second))
	return nil
}

// work books and releases some hundred times a second.
func work(ctx context.Context, s *sched.Scheduler, ranks int, length time.Duration) (bookings int64) {
	var held []*sched.Booking
	for began := time.Now(); time.Since(began) < length && ctx.Err() == nil; {
		time.Sleep(2 * time.Millisecond)
		if len(held) >= 8 {
			_ = held[0].Release()
			held = held[1:]
		}
		pin := sched.RankID{Worker: uint64(probed + 1 + rand.IntN(ranks-probed))}
		b, err := s.Schedule(ctx, &sched.Request{ID: fmt.Sprint("work-", bookings), ISL: 1 << 20, Pin: &pin})
		if err != nil {
			continue
		}
		bookings++
		held = append(held, b)
	}
	for _, b := range held {
		_ = b.Release()
	}
	return bookings
}

// doubled has requests come at all replicas, which wait for a rank without prefill and
// then have it for a while, and counts those that were not alone there.
func (s *Settings) doubled(ctx context.Context, load float64, shared bool) (Doubled, error) {
	d := Doubled{Load: load, Shared: shared}
	p, err := open(ctx, s.Replicas, s.Ranks, queueing, shared, nil)
	if err != nil {
		return d, err
	}
	ranks := make([]atomic.Int64, s.Ranks+1) // how many are there, in truth
	var double, bookings, most atomic.Int64
	gap := float64(s.Prefill) / (load * float64(s.Ranks)) // mean time between two arrivals
	var all sync.WaitGroup
	next := time.Duration(0)
	for i, began := 0, time.Now(); next < s.Each && ctx.Err() == nil; i++ {
		next += time.Duration(gap * rand.ExpFloat64())
		time.Sleep(next - time.Since(began))
		scheduler := p.schedulers[rand.IntN(len(p.schedulers))]
		length := time.Duration(float64(s.Prefill) * rand.ExpFloat64())
		all.Go(func() {
			b, err := scheduler.Schedule(ctx, &sched.Request{ID: fmt.Sprint(i), ISL: 1000})
			if err != nil {
				return
			}
			bookings.Add(1)
			at := &ranks[b.Placement().Rank.Worker]
			if now := at.Add(1); now > 1 {
				double.Add(1)
				for was := most.Load(); was < now && !most.CompareAndSwap(was, now); was = most.Load() {
				}
			}
			time.Sleep(length)
			at.Add(-1)
			_ = b.Release()
		})
	}
	all.Wait()
	d.Bookings, d.Double, d.Most = int(bookings.Load()), int(double.Load()), max(1, most.Load())
	return d, p.close()
}

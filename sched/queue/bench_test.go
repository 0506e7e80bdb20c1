package queue_test

import (
	"fmt"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// BenchmarkAddRemove queues a request among others and takes it out again.
func BenchmarkAddRemove(b *testing.B) {
	for _, n := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			q := queue.New[int]([]queue.ClassSpec{{Quantum: 1}})
			for i := range n {
				q.Add(0, request(i))
			}
			e := request(n)
			b.ReportAllocs()
			for b.Loop() {
				q.Add(0, e)
				q.Remove(e)
			}
		})
	}
}

func request(i int) *queue.Entry[int] {
	return &queue.Entry[int]{Value: i, Seq: uint64(i), Arrival: int64(i), Due: queue.NoDue, Cost: 100}
}

// BenchmarkArriveServe has one come and one go while others wait: in one lane,
// and in lanes of which one is freed.
func BenchmarkArriveServe(b *testing.B) {
	for _, bm := range []struct{ classes, waiting, lanes int }{
		{1, 240, 1}, {4, 240, 1}, {1, 10_000, 1}, {1, 10_000, 1000},
	} {
		b.Run(fmt.Sprintf("classes=%d/waiting=%d/lanes=%d", bm.classes, bm.waiting, bm.lanes), func(b *testing.B) {
			specs := make([]queue.ClassSpec, bm.classes)
			for i := range specs {
				specs[i].Quantum = 100
			}
			h := &host{}
			h.line = queue.NewLine[*queue.Entry[int]](specs, h)
			seq := uint64(0)
			arrive := func(e *queue.Entry[*queue.Entry[int]]) {
				seq++
				e.Seq, e.Arrival = seq, int64(seq)
				budget := queue.NewBudget(100_000)
				if h.line.Arrive(int(seq)%bm.classes, e, &budget) != queue.Done || h.settle(&budget) != queue.Done {
					b.Fatal("not done")
				}
			}
			entries := make([]*queue.Entry[*queue.Entry[int]], bm.waiting)
			for i := range entries {
				e := &queue.Entry[*queue.Entry[int]]{Value: request(i), Due: queue.NoDue, Cost: 100}
				if bm.lanes > 1 {
					lane := i % bm.lanes
					e.Lane = fmt.Sprint("pin ", lane)
					e.Scope = queue.Scope{Pinned: true, Rank: rankOf(lane)}
				}
				e.Value.Value = i
				entries[i] = e
				arrive(e)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.free = 1
				h.line.Queue().Free(rankOf(i % bm.lanes))
				budget := queue.NewBudget(100_000)
				if h.line.Serve(64, &budget) != queue.Done || h.served < 0 {
					b.Fatal("nobody went")
				}
				arrive(entries[h.served])
				h.served = -1
			}
		})
	}
}

func rankOf(lane int) lifecycle.RankID { return lifecycle.RankID{Worker: uint64(lane) + 1} }

// host has room for as many as are free.
type host struct {
	line   *queue.Line[*queue.Entry[int]]
	free   int
	served int // who went last
}

type rules struct{}

func (rules) CanQueue() bool              { return true }
func (rules) NeverQueues() (string, bool) { return "", false }
func (rules) LimitReached(_, _, _, _ int64) (string, int64, int64, bool) {
	return "", 0, 0, false
}

func (h *host) Now() int64            { return 0 }
func (h *host) Rules(int) queue.Rules { return rules{} }
func (h *host) Workers() int64        { return 1 }
func (h *host) Gate(int, *queue.Entry[int], bool) queue.Gate {
	return queue.Gate{Eligible: 1, MustWait: h.free <= 0, Looked: 1}
}

func (h *host) Use(int, *queue.Entry[int], queue.RankID) queue.Use {
	if h.free <= 0 {
		return queue.Busy
	}
	return queue.Usable
}
func (h *host) Usage(int) queue.Usage              { return queue.Usage{} }
func (h *host) Guard(int, *queue.Entry[int], bool) {}

func (h *host) DoNotQueue(*queue.Entry[int]) bool { return false }
func (h *host) Book(_ int, e *queue.Entry[int]) queue.Verdict {
	h.free--
	h.served = e.Value
	return queue.Settled
}
func (h *host) Grant(*queue.Entry[int])                        {}
func (h *host) Expire(*queue.Entry[int])                       {}
func (h *host) Reject(int, *queue.Entry[int], queue.Rejection) { panic("nobody is rejected") }
func (h *host) Queued(int, *queue.Entry[int])                  {}

// settle serves who can run, and decides about those who have joined.
func (h *host) settle(b *queue.Budget) queue.Status {
	for {
		if status := h.line.Serve(64, b); status != queue.Done {
			return status
		}
		if status := h.line.SettleJoined(b); status != queue.Paused {
			return status
		}
	}
}

package simulate

import (
	"context"
	"time"
)

// Result is what became of the requests. Times are virtual.
type Result struct {
	// Requests is how many there were. Completed ones ran to their end; Refused
	// ones ended with an error, the first of which is Refusal. The others were cut
	// short.
	Requests, Completed, Refused int
	Refusal                      error

	// FirstToken holds, for each completed request, the time from its arrival to
	// its first token, in the order of arrival; Short and Long hold the same, parted
	// by Config.Long.
	FirstToken, Short, Long []time.Duration
	// PerToken is the time from the first token to the end by output token, for
	// each completed request of at least two.
	PerToken []time.Duration
	// Waited holds how long each request that had to stand in line did so, of
	// those that were admitted.
	Waited []time.Duration

	// Prompt and Cached are the prompt tokens run, and those of them found in
	// the cache of their rank.
	Prompt, Cached int64
	// Balance is the number of requests on the busiest rank to the mean of the
	// ranks, averaged over the arrivals that found any there; 1 is even.
	Balance float64
	// End is when the last request ended.
	End time.Duration
	// Left counts what should be gone in the end: waiting requests, live bookings,
	// ranks with a load.
	Left int64
}

// left counts what is left over once all has ended.
func (s *simulation) left() error {
	// Requests that waited when the simulation was cut short have gone; nothing else
	// moves.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := s.scheduler.Settle(ctx)
	cut := s.ended < len(s.flights)
	stats := s.scheduler.Stats()
	s.result.Left = stats.Waiting
	if cut {
		return err // bookings that ran live on
	}
	s.result.Left += stats.Live
	for _, load := range s.scheduler.Loads() {
		if load.PrefillTokens != 0 || load.Blocks != 0 || load.Requests != 0 {
			s.result.Left++
		}
	}
	return err
}

// count sums up the flights.
func (s *simulation) count() {
	r := &s.result
	r.Requests = len(s.flights)
	for i := range s.flights {
		f, request := &s.flights[i], &s.cfg.Requests[i]
		if f.queued && (f.state == running || f.state == completed) {
			r.Waited = append(r.Waited, f.granted-request.At)
		}
		if f.state == refused {
			r.Refused++
		}
		if f.state != completed {
			continue
		}
		r.Completed++
		r.End = max(r.End, f.finished)
		first := f.firstToken - request.At
		r.FirstToken = append(r.FirstToken, first)
		if i < len(s.cfg.Long) && s.cfg.Long[i] {
			r.Long = append(r.Long, first)
		} else {
			r.Short = append(r.Short, first)
		}
		if request.OSL > 1 {
			r.PerToken = append(r.PerToken, (f.finished-f.firstToken)/time.Duration(request.OSL-1))
		}
	}
	for _, rank := range s.ranks {
		t := rank.Totals()
		r.Prompt += t.Prompt
		r.Cached += t.Cached
	}
	if s.looks > 0 {
		r.Balance = s.balance / float64(s.looks)
	}
}

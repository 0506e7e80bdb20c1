package sched

import "fmt"

// CheckConsistency compares what the scheduler keeps in several places. Nothing
// may move meanwhile.
func CheckConsistency(s *Scheduler) error {
	live := int64(0)
	for shard := range s.world.Load().Table.Shards {
		shard.Lock()
		err := shard.CheckLocked()
		load := shard.LoadLocked()
		shard.Unlock()
		if err != nil {
			return fmt.Errorf("rank %v: %w", shard.ID(), err)
		}
		if view := shard.View(); view.Load != load {
			return fmt.Errorf("rank %v publishes %+v but has %+v", shard.ID(), view.Load, load)
		}
		live += load.Requests
	}
	if ids := int64(s.ids.Len()); ids != live+s.waiting.Load() {
		return fmt.Errorf("%d ids for %d live bookings and %d waiting", ids, live, s.waiting.Load())
	}
	if prefixes := s.env.Prefixes(); prefixes != nil && live == 0 && prefixes.Len() != 0 {
		return fmt.Errorf("%d blocks in the index without a booking", prefixes.Len())
	}
	queued := 0
	if s.line.queue != nil {
		queued = s.line.queue.Len()
	}
	if int64(queued) != s.waiting.Load() {
		return fmt.Errorf("%d queued but %d waiting", queued, s.waiting.Load())
	}
	return nil
}

// VersionIn is versionIn.
var VersionIn = versionIn

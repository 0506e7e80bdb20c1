package capacity

import "testing"

// BenchmarkRing records hints and drains them, as releases and an epoch do.
func BenchmarkRing(b *testing.B) {
	b.Run("record+drain", func(b *testing.B) {
		r, sources := newRing(DefaultSize, 1)
		b.ReportAllocs()
		for b.Loop() {
			r.Record(sources[0])
			r.Drain(func(*source) {})
		}
	})
	b.Run("record/marked", func(b *testing.B) {
		r, sources := newRing(DefaultSize, 1)
		r.Record(sources[0])
		b.ReportAllocs()
		for b.Loop() {
			r.Record(sources[0])
		}
	})
	b.Run("drain/64", func(b *testing.B) {
		r, sources := newRing(DefaultSize, 64)
		b.ReportAllocs()
		for b.Loop() {
			for _, s := range sources {
				r.Record(s)
			}
			r.Drain(func(*source) {})
		}
	})
	b.Run("drain/empty", func(b *testing.B) {
		r, _ := newRing(DefaultSize, 1)
		b.ReportAllocs()
		for b.Loop() {
			r.Drain(func(*source) {})
		}
	})
}

// BenchmarkRecordParallel has several releases leave hints while one drains.
func BenchmarkRecordParallel(b *testing.B) {
	r, sources := newRing(DefaultSize, 64)
	done, drained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drained)
		for {
			select {
			case <-done:
				return
			default:
				if r.Drain(func(*source) {}) {
					r.ClearAll(func(yield func(*source) bool) {
						for _, s := range sources {
							if !yield(s) {
								return
							}
						}
					})
				}
			}
		}
	}()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			s := sources[i%len(sources)]
			s.mu.Lock()
			r.Record(s)
			s.mu.Unlock()
		}
	})
	close(done)
	<-drained
}

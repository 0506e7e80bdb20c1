package lifecycle

import (
	"slices"
	"testing"
)

// FuzzBlocks reads calls from bytes and compares every step with the model.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte{0, 0, 0, 40, 1, 0, 0, 20, 9, 2, 4, 0, 90, 4, 1, 20, 3, 0})
	f.Add([]byte{0, 0, 0, 33, 0, 4, 0, 7, 1, 0, 16, 0, 0, 5, 1, 1, 4, 0, 200, 3, 0})
	f.Add([]byte{0, 0, 0, 63, 5, 1, 0, 8, 4, 1, 4, 0, 3, 4, 1, 8, 6, 0, 2, 3, 1, 3, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 160 {
			return
		}
		next := func() int {
			if len(in) == 0 {
				return 0
			}
			b := in[0]
			in = in[1:]
			return int(b)
		}
		mt := newModelTest(t, 0)
		for len(in) > 0 {
			op, live := next()%7, len(mt.all)
			var x *modelBooking
			if live > 0 {
				x = mt.all[next()%live]
			}
			switch {
			case op < 3 && live < 8:
				// A prompt that follows another up to any block, and then goes on
				// with hashes that others use as well.
				var p []uint64
				if x != nil {
					p = slices.Clone(x.prompt[:next()%(len(x.prompt)+1)])
				}
				more := next()
				for i := range min(more%64, 96-len(p)) {
					p = append(p, uint64(more/64*(i%(op+1))))
				}
				mt.book(op%2, &Booking{}, p)
			case x == nil:
			case op == 3:
				mt.release(x)
			case op == 4:
				mt.decay(x, int64(next())<<8)
			case op == 5:
				mt.output(x)
			case op == 6:
				mt.transfer(x, next()%len(mt.ranks), 0)
			}
			mt.compare()
		}
		mt.finish()
	})
}

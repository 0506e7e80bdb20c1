package kvevents

import (
	"context"
	"net"
	"unsafe"
)

// Footprint is what the batch holds, in bytes.
func (b *Batch) Footprint() int {
	return len(b.events)*int(unsafe.Sizeof(event{})) + 8*len(b.hashes) + 4*len(b.tokens) + len(b.spaces)*int(unsafe.Sizeof(Namespace{}))
}

// Entries is how many blocks stand in the tables.
func (x *Index) Entries() int {
	n := 0
	for _, t := range x.tables {
		if t == nil {
			continue
		}
		for i := range t.shards {
			n += len(t.shards[i].mu.holders)
		}
	}
	return n
}

// DialWith has the index connect by other means than the network.
func (x *Index) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	x.dial = dial
}

package shards

import (
	"testing"
	"unsafe"
)

// Shards share no cache line, nor do the lock of one and its published load.
func TestShardLayout(t *testing.T) {
	t.Parallel()
	const line = 64
	var s Shard
	if at := unsafe.Offsetof(s.published); at%line != 0 {
		t.Errorf("the published load begins at byte %d, within a cache line", at)
	}
	if size := unsafe.Sizeof(s); size%128 != 0 {
		t.Errorf("%d bytes: the next shard begins within a cache line", size)
	}
	for range 100 {
		s := NewShard(s.id, &Env{})
		if at := uintptr(unsafe.Pointer(s)); at%line != 0 {
			t.Fatalf("a shard begins at %#x", at)
		}
	}
}

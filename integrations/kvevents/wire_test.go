package kvevents_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The shapes that engines send, made by an encoder that knows nothing of the package.
type (
	array = []any
	table = map[string]any
)

// pack encodes a batch with the rank that is given, or none.
func pack(t testing.TB, events ...any) []byte { return encode(t, array{1.5, events, nil}) }

func encode(t testing.TB, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.UseCompactInts(true)
	require.NoError(t, e.Encode(v))
	return out.Bytes()
}

// storedMap is vLLM's map form of 2026.
func storedMap(parent any, hashes array, tokens array, size int) table {
	return table{
		"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "token_ids": tokens,
		"block_size": size, "lora_id": nil, "medium": "GPU", "lora_name": nil,
	}
}

func removedMap(hashes ...any) table {
	return table{"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU"}
}

// count returns n numbers from first on.
func count(first, n int) array {
	a := make(array, n)
	for i := range a {
		a[i] = first + i
	}
	return a
}

func tokens(first, n int) []uint32 {
	a := make([]uint32, n)
	for i := range a {
		a[i] = uint32(first + i)
	}
	return a
}

var one = sched.RankID{Worker: 1}

func newIndex(t testing.TB, config kvevents.Config) *kvevents.Index {
	t.Helper()
	if config.BlockSize == 0 {
		config.BlockSize = 4
	}
	x, err := kvevents.New(config)
	require.NoError(t, err)
	return x
}

func apply(t testing.TB, x *kvevents.Index, id sched.RankID, payload []byte) {
	t.Helper()
	var b kvevents.Batch
	require.NoError(t, kvevents.Decode(payload, &b))
	require.NoError(t, x.Apply(id, &b))
}

// held returns how many blocks of the prompt the rank holds on its device.
func held(x *kvevents.Index, id sched.RankID, space kvevents.Namespace, prompt []uint32) int {
	for _, o := range x.Overlaps(nil, x.Hashes(nil, space, prompt)) {
		if o.Rank == id {
			return int(o.Device)
		}
	}
	return 0
}

// fromEngine is a message that says that two blocks of four tokens are stored.
func fromEngine() []byte {
	var out bytes.Buffer
	if err := msgpack.NewEncoder(&out).Encode(array{1.5, array{storedMap(nil, array{7, 8}, count(0, 8), 4)}, 0}); err != nil {
		panic(err)
	}
	return out.Bytes()
}

package kvevents_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
)

func sha(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

// TestGoldenPayloads: every form that engines have had, each with two blocks of a chain
// that the prompt 0, 1, 2, … has, and what comes of them.
func TestGoldenPayloads(t *testing.T) {
	t.Parallel()
	negative := array{int64(-77), int64(-78)}
	huge := array{uint64(1<<63 + 5), uint64(1<<64 - 1)}
	bytesOf := array{sha(1), sha(2)}
	pairs := make(array, 8)
	for i := range pairs {
		pairs[i] = array{i, i + 1}
	}
	with := func(m table, more table) table {
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	plain := func() table { return storedMap(nil, array{7, 8}, count(0, 8), 4) }
	for _, tt := range []struct {
		name    string
		batch   any
		space   kvevents.Namespace
		want    int
		bad     int
		unknown int
	}{
		{name: "vLLM 0.10, array without medium and rank", want: 2,
			batch: array{1.5, array{array{"BlockStored", array{7, 8}, nil, count(0, 8), 4, nil}}}},
		{name: "vLLM 0.14, array with medium and adapter", want: 2, space: kvevents.Namespace{LoRA: "sql"},
			batch: array{1.5, array{array{"BlockStored", bytesOf, nil, count(0, 8), 4, 3, "GPU", "sql"}}, 0}},
		{name: "vLLM 0.23, array of eleven fields", want: 2,
			batch: array{1.5, array{array{"BlockStored", huge, nil, count(0, 8), 4, nil, "GPU", nil, array{nil, nil}, 0, "full_attention", nil}}, 0}},
		{name: "array with fields of the future", want: 2,
			batch: array{1.5, array{array{"BlockStored", huge, nil, count(0, 8), 4, nil, "GPU", nil, nil, 0, "mla_attention", nil, array{1}, table{"a": 1}}}, 0, "more", table{}}},
		{name: "vLLM 0.26, map", want: 2, batch: array{1.5, array{plain()}, 0}},
		{name: "map with fields of the future", want: 2,
			batch: array{1.5, array{with(plain(), table{"origin": table{"x": array{1, nil}}, "event_version": 3, "locality": "LOCAL"})}, 0}},
		{name: "map without what may be missing", want: 2,
			batch: array{1.5, array{table{"type": "BlockStored", "block_hashes": array{7, 8}, "token_ids": count(0, 8), "block_size": 4}}}},
		{name: "a batch that is a map", want: 2,
			batch: table{"ts": 1.5, "events": array{plain()}, "data_parallel_rank": 0, "new": 1}},
		{name: "time as a whole number", want: 2, batch: array{1, array{plain()}, nil}},
		{name: "SGLang, array, signed", want: 2,
			batch: array{1.5, array{array{"BlockStored", negative, nil, count(0, 8), 4, nil, "GPU"}}}},
		{name: "SGLang, array, salt in a map", want: 2, space: kvevents.Namespace{Salt: "s"},
			batch: array{1.5, array{array{"BlockStored", negative, nil, count(0, 8), 4, nil, "GPU", table{"cache_salt": "s"}}}}},
		{name: "SGLang, map, pairs: all but the last is sure", want: 1,
			batch: array{1.5, array{storedMap(nil, negative, pairs, 4)}}},
		{name: "TensorRT-LLM, map", want: 2,
			batch: array{1.5, array{with(plain(), table{"block_hashes": huge})}, 0}},
		{name: "simulator, array, one event for each block", want: 2,
			batch: array{1.5, array{
				array{"BlockStored", array{7}, nil, count(0, 4), 4, nil},
				array{"BlockStored", array{8}, 7, count(4, 4), 4, nil},
			}, nil}},
		{name: "array and map in one batch", want: 2,
			batch: array{1.5, array{array{"BlockStored", array{7}, nil, count(0, 4), 4, nil}, storedMap(7, array{8}, count(4, 4), 4)}, nil}},
		{name: "parent in bytes", want: 2,
			batch: array{1.5, array{storedMap(nil, array{sha(1)}, count(0, 4), 4), storedMap(sha(1), array{sha(2)}, count(4, 4), 4)}, nil}},
		{name: "adapter by number only", want: 2, space: kvevents.Namespace{LoRA: "3"},
			batch: array{1.5, array{array{"BlockStored", array{7, 8}, nil, count(0, 8), 4, 3}}}},
		{name: "salt among the extra keys", want: 2, space: kvevents.Namespace{LoRA: "sql", Salt: "s"},
			batch: array{1.5, array{with(plain(), table{"lora_name": "sql", "extra_keys": array{array{"sql", "s"}, array{"sql"}}})}}},
		{name: "salt does not match without", want: 0,
			batch: array{1.5, array{with(plain(), table{"extra_keys": array{array{"s"}, nil}})}}},
		{name: "an image ends what is indexed", want: 1,
			batch: array{1.5, array{with(plain(), table{"extra_keys": array{nil, array{array{"img", 4}}}})}}},
		{name: "an embedding ends what is indexed", want: 0,
			batch: array{1.5, array{with(plain(), table{"extra_keys": array{array{sha(3)}, nil}})}}},
		{name: "window attention is no prefix", want: 0,
			batch: array{1.5, array{with(plain(), table{"kv_cache_spec_kind": "sliding_window", "token_ids": count(0, 3)})}}},
		{name: "main group beside another", want: 2,
			batch: array{1.5, array{with(plain(), table{"group_idx": 1}), with(plain(), table{"group_idx": 0, "block_hashes": array{9, 10}})}}},
		{name: "blocks of another machine", want: 0,
			batch: array{1.5, array{with(plain(), table{"locality": "REMOTE"})}}},
		{name: "host blocks do not count unless asked for", want: 0,
			batch: array{1.5, array{with(plain(), table{"medium": "CPU"})}}},
		{name: "unknown events", want: 2, unknown: 2,
			batch: array{1.5, array{array{"Tick", 3}, plain(), table{"type": "Tock", "n": 1}}}},
		{name: "bad events cost themselves", want: 2, bad: 8,
			batch: array{1.5, array{
				7, nil, array{}, table{}, array{array{}},
				table{"type": "BlockStored", "block_hashes": "no list"},
				storedMap(nil, array{11}, count(0, 5), 4),
				storedMap(nil, array{nil}, count(0, 4), 4),
				plain(),
			}}},
		{name: "a token beyond 32 bits", want: 0, bad: 1,
			batch: array{1.5, array{storedMap(nil, array{7}, array{1 << 40, 1, 2, 3}, 4)}}},
		{name: "a negative token", want: 0, bad: 1,
			batch: array{1.5, array{storedMap(nil, array{7}, array{-1, 1, 2, 3}, 4)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x := newIndex(t, kvevents.Config{})
			var b kvevents.Batch
			for range 2 { // a batch is used again
				require.NoError(t, kvevents.Decode(encode(t, tt.batch), &b))
			}
			require.Equal(t, tt.bad, b.Bad, "bad")
			require.Equal(t, tt.unknown, b.Unknown, "unknown")
			require.NoError(t, x.Apply(one, &b))
			require.Equal(t, tt.want, held(x, one, tt.space, tokens(0, 100)))
		})
	}
}

// TestWhatIsNoBatch: what has not the shape of a batch is refused, whatever it claims.
func TestWhatIsNoBatch(t *testing.T) {
	t.Parallel()
	whole := pack(t, storedMap(nil, array{7, 8}, count(0, 8), 4))
	deep := append([]byte{0x93, 0x01, 0x91}, bytes.Repeat([]byte{0x91}, 1<<22)...)
	for name, payload := range map[string][]byte{
		"nothing": nil, "a number": {1}, "a text": encode(t, "x"), "one field": encode(t, array{1.5}),
		"a length without bytes": {0x93, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"deeper than any stack":  deep,
		"cut":                    whole[:len(whole)-3],
		"a rank that is a text":  encode(t, array{1.5, array{}, "x"}),
	} {
		var b kvevents.Batch
		require.Error(t, kvevents.Decode(payload, &b), name)
		x := newIndex(t, kvevents.Config{})
		require.NoError(t, x.Apply(one, &b), "an empty batch")
		require.Zero(t, x.Stats()[0].Blocks)
	}
	for n := range whole {
		var b kvevents.Batch
		_ = kvevents.Decode(whole[:n], &b)
	}
}

// TestDecodeAllocatesNothingTwice: a batch that is used again has room already.
func TestDecodeAllocatesNothingTwice(t *testing.T) {
	payload := encode(t, array{1.5, array{
		storedMap(nil, array{sha(1), sha(2)}, count(70000, 8), 4),
		table{"type": "BlockStored", "block_hashes": array{5}, "token_ids": count(0, 4), "block_size": 4, "lora_name": "sql", "extra_keys": array{array{"sql", "salt"}}},
		removedMap(sha(1)),
	}, 0})
	var b kvevents.Batch
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if kvevents.Decode(payload, &b) != nil {
			panic("decode")
		}
	}))
}

// FuzzDecode: no payload makes Decode panic or allocate out of proportion, and whatever
// it lets through can be applied.
func FuzzDecode(f *testing.F) {
	f.Add(pack(f, storedMap(nil, array{7, 8}, count(0, 8), 4), removedMap(7), array{"AllBlocksCleared"}))
	f.Add(encode(f, array{1.5, array{array{"BlockStored", array{sha(1)}, sha(2), count(0, 4), 4, 1, "CPU", "l", array{array{"l", array{"i", 3}}}, 0, "full_attention", 7}}, 3}))
	f.Add(encode(f, table{"ts": 1, "events": array{table{"type": "AllBlocksCleared"}}, "data_parallel_rank": nil}))
	f.Add(encode(f, array{1, array{storedMap(nil, array{1}, array{array{1, 2}, array{2, 3}}, 2)}}))
	f.Add([]byte{0x93, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff, 0xc7, 0xff, 0x01})
	x := newIndex(f, kvevents.Config{BlockSize: 1, HostTiers: true})
	var b kvevents.Batch
	f.Fuzz(func(t *testing.T, payload []byte) {
		if err := kvevents.Decode(payload, &b); err != nil {
			return
		}
		require.LessOrEqual(t, b.Footprint(), 4*len(payload)+64<<10)
		b.Rank = -1
		_ = x.Apply(one, &b)
		x.Clear(one)
		for _, o := range x.Overlaps(nil, x.Hashes(nil, kvevents.Namespace{}, tokens(0, 4))) {
			t.Fatalf("held after a clear: %v", o)
		}
	})
}

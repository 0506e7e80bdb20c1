package protocol

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestCodecRoundTrip(t *testing.T) {
	t.Parallel()
	for _, m := range []Message{
		{Kind: Hello, From: "a"},
		{Kind: Beat, From: "gateway-1", Incarnation: math.MaxUint64, Number: 3, Digest: 1 << 63},
		{Kind: State, From: "ä", Number: 9, Part: 1, Parts: 2, Loads: []Load{
			{Rank: Rank{math.MaxUint64, math.MaxUint32}, Prefill: MaxAmount, Blocks: 1, Version: 9},
			{Rank: Rank{1, 0}, Version: 4},
		}},
	} {
		got, err := Decode(m.Append(nil))
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
}

func TestDecodeBounds(t *testing.T) {
	t.Parallel()
	varint := func(b []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	bytes := func(b []byte, field protowire.Number, v string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
	}
	valid := (&Message{Kind: Batch, From: "a", Number: 1}).Append(nil)
	for name, b := range map[string][]byte{
		"nothing":          nil,
		"another version":  {2, 8, 1},
		"no kind":          bytes([]byte{1}, 2, "a"),
		"kind too great":   varint(valid, 1, 99),
		"no sender":        varint([]byte{1}, 1, 1),
		"long name":        bytes(valid, 2, strings.Repeat("a", MaxName+1)),
		"name not UTF-8":   bytes(valid, 2, "\xff"),
		"rank too great":   bytes(valid, 8, string(varint(nil, 2, 1<<40))),
		"part out of all":  varint(valid, 6, 1),
		"very many parts":  varint(valid, 7, math.MaxUint64),
		"cut short":        valid[:len(valid)-1],
		"many loads":       append(valid, strings.Repeat("\x42\x00", MaxLoads+1)...),
		"load of no bytes": append(valid, 0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
	} {
		_, err := Decode(b)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	// A field of a later version is skipped; amounts that would be negative are cut.
	m, err := Decode(bytes(varint(valid, 99, 5), 8, string(varint(varint(nil, 3, math.MaxUint64), 77, 1))))
	require.NoError(t, err)
	require.Equal(t, []Load{{Prefill: MaxAmount, Version: 1}}, m.Loads)
}

func FuzzDecode(f *testing.F) {
	f.Add((&Message{Kind: Batch, From: "a", Number: 7, Loads: []Load{{Rank: Rank{1, 2}, Prefill: 3, Blocks: 4, Requests: 5, Version: 6}}}).Append(nil))
	f.Add([]byte{1, 8, 3, 18, 1, 'a', 66, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := Decode(m.Append(nil))
		require.NoError(t, err)
		require.Equal(t, m, again)
		// Whatever it says, a core takes it and stays within its bounds.
		c := New(Config{Name: "me", Incarnation: 1})
		out := c.Receive(0, &m)
		for _, e := range out.Effects {
			for _, l := range e.Loads {
				if l.Prefill < 0 || l.Blocks < 0 || l.Requests < 0 || l.Prefill > MaxAmount {
					t.Fatalf("%+v", l)
				}
			}
		}
	})
}

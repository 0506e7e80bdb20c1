package kvevents_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents/publish"
	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// churn returns batches of 4 stores of 4 blocks each and as many removals, that one after
// the other leave the cache as it was.
func churn(t testing.TB, form int) [][]byte {
	r := rand.New(rand.NewPCG(1, 1))
	var batches [][]byte
	var last [4][]any
	for range 256 {
		events := make([]any, 0, 8)
		for i := range 4 {
			if last[i] != nil {
				events = append(events, removedMap(last[i]...))
			}
			hashes, toks := make(array, 4), make(array, 64)
			for j := range hashes {
				hashes[j] = r.Uint64()
			}
			for j := range toks {
				toks[j] = r.Uint32N(150000)
			}
			last[i] = hashes
			if form == 0 {
				events = append(events, storedMap(nil, hashes, toks, 16))
			} else {
				events = append(events, array{"BlockStored", hashes, nil, toks, 16, nil, "GPU"})
			}
		}
		batches = append(batches, pack(t, events...))
	}
	batches = append(batches, pack(t, removedMap(last[0]...), removedMap(last[1]...), removedMap(last[2]...), removedMap(last[3]...)))
	return batches
}

func BenchmarkDecodeAndApply(b *testing.B) {
	for form, name := range []string{"map", "array"} {
		b.Run(name, func(b *testing.B) {
			x := newIndex(b, kvevents.Config{BlockSize: 16})
			batches := churn(b, form)
			var batch kvevents.Batch
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if kvevents.Decode(batches[i%len(batches)], &batch) != nil || x.Apply(one, &batch) != nil {
					b.Fatal("no batch")
				}
			}
			b.ReportMetric(16*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	batches := churn(b, 0)
	var batch kvevents.Batch
	for i := 0; b.Loop(); i++ {
		if kvevents.Decode(batches[i%len(batches)], &batch) != nil {
			b.Fatal("no batch")
		}
	}
	b.ReportMetric(16*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
}

// BenchmarkOverlaps looks up prompts of 256 blocks: each rank holds 20,000 blocks, a
// quarter of them shared with the others.
func BenchmarkOverlaps(b *testing.B) {
	for _, ranks := range []int{16, 64, 128} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			x := newIndex(b, kvevents.Config{BlockSize: 16})
			before := testkit.HeapInUse()
			held := fill(b, x, ranks, 20_000)
			size := float64(testkit.HeapInUse()-before) / float64(held)
			prompts := make([][]uint64, 64)
			for i := range prompts {
				prompts[i] = x.Hashes(nil, kvevents.Namespace{}, chainTokens(i, 256*16))
			}
			dst := x.Overlaps(nil, prompts[0])
			require.NotEmpty(b, dst)
			b.ReportAllocs()
			times := make([]time.Duration, 0, 1<<20)
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				dst = x.Overlaps(dst[:0], prompts[i%len(prompts)])
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2])/1e3, "p50-µs")
			b.ReportMetric(float64(times[len(times)*99/100])/1e3, "p99-µs")
			b.ReportMetric(size, "B/block")
			runtime.KeepAlive(x)
		})
	}
}

// chainTokens are the tokens of the n-th prompt; the first quarter of each is that of a
// prompt of another multiple of 16.
func chainTokens(n, length int) []uint32 {
	r := rand.New(rand.NewPCG(uint64(n%16), 1))
	toks := make([]uint32, length)
	for i := range toks {
		if i == length/4 {
			r = rand.New(rand.NewPCG(uint64(n), 2))
		}
		toks[i] = r.Uint32N(150000)
	}
	return toks
}

func fill(b *testing.B, x *kvevents.Index, ranks, blocks int) (held int) {
	var batch kvevents.Batch
	for rank := range ranks {
		id := sched.RankID{Worker: uint64(rank)}
		name := uint64(0)
		for n := 0; n*256 < blocks; n++ {
			prompt := n
			if n >= 64 {
				prompt = 1000 + rank*1000 + n
			}
			if n >= 20 && n < 64 {
				prompt = 64*(1+rank) + n
			}
			toks := chainTokens(prompt, 256*16)
			values := make(array, len(toks))
			for i, token := range toks {
				values[i] = token
			}
			hashes := make(array, 256)
			for i := range hashes {
				name++
				hashes[i] = name * 0x9e3779b97f4a7c15
			}
			require.NoError(b, kvevents.Decode(pack(b, storedMap(nil, hashes, values, 16)), &batch))
			require.NoError(b, x.Apply(id, &batch))
		}
	}
	for _, s := range x.Stats() {
		held += s.Blocks
	}
	return held
}

// BenchmarkFollow has one follower read a stream over loopback as fast as it comes, the
// publisher in the same process.
func BenchmarkFollow(b *testing.B) {
	x := newIndex(b, kvevents.Config{BlockSize: 16})
	batches := churn(b, 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		r := bufio.NewReader(conn)
		if publish.Greet(conn, r, publish.PUB) != nil {
			return
		}
		if _, _, err := publish.ReadFrame(r); err != nil {
			return
		}
		out := bufio.NewWriterSize(conn, 64<<10)
		seq, frames := make([]byte, 8), []byte(nil)
		for i := 0; ; i++ {
			binary.BigEndian.PutUint64(seq, uint64(i))
			frames = publish.AppendFrame(frames[:0], 1, nil)
			frames = publish.AppendFrame(frames, 1, seq)
			frames = publish.AppendFrame(frames, 0, batches[i%len(batches)])
			if _, err := out.Write(frames); err != nil {
				return
			}
		}
	}()
	ctx, cancel := context.WithCancel(b.Context())
	var following sync.WaitGroup
	following.Go(func() { _ = x.Follow(ctx, kvevents.Source{Rank: one, Events: "tcp://" + l.Addr().String()}) })
	applied := func() uint64 {
		if all := x.Stats(); len(all) > 0 {
			return all[0].Batches
		}
		return 0
	}
	for applied() == 0 {
		time.Sleep(time.Millisecond)
	}
	b.ResetTimer()
	first, start := applied(), time.Now()
	for applied()-first < uint64(b.N) {
		time.Sleep(time.Millisecond)
	}
	done := applied() - first
	b.ReportMetric(16*float64(done)/time.Since(start).Seconds(), "blocks/s")
	b.StopTimer()
	cancel()
	following.Wait()
}

package kvevents_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
	"github.com/seed-3c5df8a4/turnstile/internal/invariants"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := kvevents.New(kvevents.Config{Grace: -1, Forget: -1, Audit: -1})
	for _, fault := range []string{"block size 0", "grace", "forget", "audit"} {
		require.ErrorContains(t, err, fault)
	}
}

// TestIndexAgainstTheTruth: random caches of several ranks, in all forms that events
// have. After every batch the index knows exactly what each engine holds.
func TestIndexAgainstTheTruth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		x := newIndex(t, kvevents.Config{BlockSize: 4})
		ranks := 1 + r.IntN(5)
		if seed%10 == 0 {
			ranks = 70
		}
		all := prompts(r, 12, 64)
		engines := make([]*engine, ranks)
		for i := range engines {
			engines[i] = newEngine(seed*100+uint64(i), 4*(1+r.IntN(3)), r.IntN(6), 5+r.IntN(60))
		}
		id := func(i int) sched.RankID { return sched.RankID{Worker: uint64(i % 7), Rank: uint32(i / 7)} }
		for range 60 {
			i := r.IntN(ranks)
			var events []any
			switch r.IntN(40) {
			case 0:
				events = array{engines[i].clear()}
			case 1:
				x.Clear(id(i))
				engines[i].clear()
			case 2:
				worker := id(i).Worker
				x.Forget(worker)
				for j, e := range engines {
					if id(j).Worker == worker {
						e.clear()
					}
				}
			default:
				events = engines[i].run(all[r.IntN(len(all))])
			}
			apply(t, x, id(i), pack(t, events...))
			prompt := all[r.IntN(len(all))]
			got := make(map[sched.RankID]int)
			for _, o := range x.Overlaps(nil, x.Hashes(nil, kvevents.Namespace{}, prompt)) {
				require.NotContains(t, got, o.Rank, "named twice")
				require.Positive(t, o.Device)
				require.Zero(t, o.Host+o.Disk)
				got[o.Rank] = int(o.Device) * 4
			}
			for j, e := range engines {
				require.Equal(t, e.overlap(prompt), got[id(j)], "seed %d, rank %v", seed, id(j))
			}
		}
	}
}

// TestSharedBlocksAreForgottenWithTheirLastHolder: nothing is left in the table.
func TestSharedBlocksAreForgottenWithTheirLastHolder(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{})
	for range 2 {
		for i := range 130 {
			apply(t, x, sched.RankID{Worker: uint64(i)}, pack(t, storedMap(nil, count(0, 8), count(0, 32), 4)))
		}
		require.Len(t, x.Overlaps(nil, x.Hashes(nil, kvevents.Namespace{}, tokens(0, 32))), 130)
		require.Equal(t, 8, x.Entries())
		for i := range 129 {
			x.Forget(uint64(i))
			require.Equal(t, 8, x.Entries())
		}
		x.Forget(129)
		require.Zero(t, x.Entries())
		require.Empty(t, x.Stats())
	}
}

func TestOrphansAreNeverTakenForRoots(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{})
	apply(t, x, one, pack(t, storedMap(99, array{7, 8}, count(0, 8), 4)))
	require.Zero(t, held(x, one, kvevents.Namespace{}, tokens(0, 8)))
	require.EqualValues(t, 2, x.Stats()[0].Orphans)
}

func TestOneNameForTwoBlocksMeansNeither(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{})
	apply(t, x, one, pack(t, storedMap(nil, array{7}, count(0, 4), 4), storedMap(nil, array{7, 8}, count(100, 8), 4)))
	require.Zero(t, held(x, one, kvevents.Namespace{}, tokens(0, 4)))
	require.Zero(t, held(x, one, kvevents.Namespace{}, tokens(100, 8)))
	require.EqualValues(t, 1, x.Stats()[0].Bad)
}

func TestCopies(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{})
	stored := storedMap(nil, array{7}, count(0, 4), 4)
	left := func(n int) table {
		m := removedMap(7)
		m["remaining_copy_counts"] = array{n}
		return m
	}
	for i, step := range []struct {
		event any
		want  int
	}{
		{stored, 1}, {stored, 1}, {stored, 1}, {removedMap(7), 1}, {removedMap(7), 1}, {removedMap(7), 0}, {removedMap(7), 0},
		{stored, 1}, {left(2), 1}, {removedMap(7), 1}, {removedMap(7), 0}, {left(1), 0},
		{stored, 1}, {stored, 1}, {left(1), 1}, {removedMap(7), 0},
		{stored, 1}, {stored, 1}, {left(0), 0},
	} {
		apply(t, x, one, pack(t, step.event))
		require.Equal(t, step.want, held(x, one, kvevents.Namespace{}, tokens(0, 4)), "step %d", i)
	}
}

func TestTiers(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{HostTiers: true})
	moved := func(medium string, hashes ...any) table {
		return table{"type": "BlockStored", "block_hashes": hashes, "token_ids": array{}, "block_size": 0, "medium": medium}
	}
	dropped := func(medium string, hashes ...any) array { return array{"BlockRemoved", hashes, medium} }
	apply(t, x, one, pack(t, storedMap(nil, count(0, 6), count(0, 24), 4)))
	blocks := x.Hashes(nil, kvevents.Namespace{}, tokens(0, 24))
	for i, step := range []struct {
		events             array
		device, host, disk float64
	}{
		{nil, 6, 0, 0},
		{array{moved("CPU", 2, 3, 4)}, 6, 0, 0},
		{array{dropped("GPU", 3, 4, 5)}, 3, 2, 0},
		{array{moved("CPU_TIER2", 4), dropped("CPU_TIER1", 4)}, 3, 1, 1},
		{array{moved("CPU", 77)}, 3, 1, 1},
		{array{storedMap(4, array{5}, count(20, 4), 4)}, 3, 1, 1}, // its parent is on disk
		{array{dropped("GPU", 1)}, 1, 0, 0},
		{array{dropped("TAPE", 0)}, 1, 0, 0},
		{array{array{"AllBlocksCleared"}}, 0, 0, 0},
	} {
		apply(t, x, one, pack(t, step.events...))
		var want []sched.Overlap
		if step.device > 0 {
			want = []sched.Overlap{{Rank: one, Device: step.device, Host: step.host, Disk: step.disk}}
		}
		require.Equal(t, want, x.Overlaps(nil, blocks), "step %d", i)
	}
}

// TestTiersOfOtherBlockSizes: where the device's blocks are longer than the host's, it is
// not known whether the host holds what the device's next block begins with.
func TestTiersOfOtherBlockSizes(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{HostTiers: true})
	stored := func(medium string, parent any, hashes array, first, size int) table {
		m := storedMap(parent, hashes, count(first, size*len(hashes)), size)
		m["medium"] = medium
		return m
	}
	apply(t, x, one, pack(t, stored("GPU", nil, array{1}, 0, 8), stored("CPU", 1, array{21, 22}, 8, 4), array{"BlockRemoved", array{21}, "CPU"}))
	blocks := x.Hashes(nil, kvevents.Namespace{}, tokens(0, 16))
	require.Equal(t, []sched.Overlap{{Rank: one, Device: 2}}, x.Overlaps(nil, blocks))

	y := newIndex(t, kvevents.Config{HostTiers: true})
	apply(t, y, one, pack(t, stored("GPU", nil, array{1, 2, 3}, 0, 4), stored("CPU", nil, array{11, 12}, 0, 8)))
	blocks = y.Hashes(nil, kvevents.Namespace{}, tokens(0, 16))
	require.Equal(t, []sched.Overlap{{Rank: one, Device: 3, Host: 1}}, y.Overlaps(nil, blocks))
}

func TestGroups(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{})
	in := func(m table, group int) table { m["group_idx"] = group; return m }
	check := func(want int) {
		t.Helper()
		require.Equal(t, want, held(x, one, kvevents.Namespace{}, tokens(0, 16)))
	}
	apply(t, x, one, pack(t, in(storedMap(nil, count(0, 2), count(0, 8), 4), 2)))
	check(2)
	apply(t, x, one, pack(t, in(storedMap(nil, count(0, 3), count(0, 12), 4), 1)))
	check(3)
	apply(t, x, one, pack(t, in(removedMap(0), 2), in(storedMap(nil, count(0, 4), count(0, 16), 4), 2)))
	check(3)
	apply(t, x, one, pack(t, in(removedMap(2), 1)))
	check(2)
	apply(t, x, one, pack(t, removedMap(1)))
	check(1)
}

func TestBlockSizes(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{BlockSize: 4})
	apply(t, x, one, pack(t, storedMap(nil, array{7, 8}, count(0, 24), 12)))
	require.Equal(t, 6, held(x, one, kvevents.Namespace{}, tokens(0, 26)))
	apply(t, x, one, pack(t, removedMap(8)))
	require.Equal(t, 3, held(x, one, kvevents.Namespace{}, tokens(0, 24)))
	require.Equal(t, 1, x.Entries())
	apply(t, x, one, pack(t, storedMap(7, array{9}, count(12, 8), 8)))
	require.EqualValues(t, 1, x.Stats()[0].Bad, "another size than before")

	var b kvevents.Batch
	require.NoError(t, kvevents.Decode(pack(t, storedMap(nil, array{9}, count(0, 6), 6)), &b))
	var wrong *kvevents.BlockSizeError
	require.ErrorAs(t, x.Apply(one, &b), &wrong)
	require.Equal(t, kvevents.BlockSizeError{Rank: one, Engine: 6, Index: 4}, *wrong)
	require.Contains(t, wrong.Error(), "6 tokens")
	require.Zero(t, held(x, one, kvevents.Namespace{}, tokens(0, 24)))
}

func TestWrongRankIsNoGuess(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{})
	var b kvevents.Batch
	require.NoError(t, kvevents.Decode(encode(t, array{1.5, array{storedMap(nil, array{7}, count(0, 4), 4)}, 3}), &b))
	require.ErrorContains(t, x.Apply(one, &b), "batch of rank 3")
	require.Empty(t, x.Stats())
	require.NoError(t, x.Apply(sched.RankID{Worker: 1, Rank: 3}, &b))
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	hashes := func(config kvevents.Config, space kvevents.Namespace, n int) []uint64 {
		return newIndex(t, config).Hashes(nil, space, tokens(0, n))
	}
	base := hashes(kvevents.Config{Seed: 5}, kvevents.Namespace{}, 12)
	require.Len(t, base, 3)
	require.Equal(t, base, hashes(kvevents.Config{Seed: 5}, kvevents.Namespace{}, 15))
	for _, other := range [][]uint64{
		hashes(kvevents.Config{Seed: 6}, kvevents.Namespace{}, 12), hashes(kvevents.Config{}, kvevents.Namespace{}, 12),
		hashes(kvevents.Config{Seed: 5}, kvevents.Namespace{LoRA: "a"}, 12), hashes(kvevents.Config{Seed: 5}, kvevents.Namespace{Salt: "a"}, 12),
		hashes(kvevents.Config{Seed: 5, BlockSize: 3}, kvevents.Namespace{}, 9),
	} {
		require.NotEqual(t, base[0], other[0])
		require.NotEqual(t, base[2], other[2])
	}
	require.NotEqual(t,
		hashes(kvevents.Config{Seed: 5}, kvevents.Namespace{LoRA: "ab"}, 4), hashes(kvevents.Config{Seed: 5}, kvevents.Namespace{LoRA: "a", Salt: "b"}, 4))
	long := newIndex(t, kvevents.Config{BlockSize: 200})
	a, b := tokens(0, 200), tokens(0, 200)
	b[199]++
	require.NotEqual(t, long.Hashes(nil, kvevents.Namespace{}, a), long.Hashes(nil, kvevents.Namespace{}, b))
}

// TestConcurrentClearsAreNeverSeenByHalves: each life of the rank holds other blocks of
// one prompt, all or none. A look-up that starts in one life must not go on in another.
func TestConcurrentClearsAreNeverSeenByHalves(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{BlockSize: 1})
	var b kvevents.Batch
	require.NoError(t, kvevents.Decode(pack(t, storedMap(nil, count(0, 64), count(0, 64), 1)), &b))
	blocks := x.Hashes(nil, kvevents.Namespace{}, tokens(0, 64))
	other := sched.RankID{Worker: 2}
	require.NoError(t, x.Apply(other, &b))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var dst []sched.Overlap
			for {
				select {
				case <-stop:
					return
				default:
				}
				dst = x.Overlaps(dst[:0], blocks)
				found := false
				for _, o := range dst {
					if o.Rank == other {
						found = true
						if o.Device != 64 {
							t.Errorf("the other rank holds %v", o.Device)
						}
					}
				}
				if !found {
					t.Error("the other rank is gone")
				}
				_ = x.Stats()
			}
		})
	}
	for i := range 300 {
		if err := x.Apply(one, &b); err != nil {
			t.Error(err)
		}
		if i%3 == 0 {
			x.Forget(one.Worker)
		} else {
			x.Clear(one)
		}
	}
	close(stop)
	readers.Wait()
}

func TestLookUpsAllocateNothing(t *testing.T) {
	for _, tiers := range []bool{false, true} {
		x := newIndex(t, kvevents.Config{HostTiers: tiers})
		for i := range 70 {
			apply(t, x, sched.RankID{Worker: uint64(i)}, pack(t, storedMap(nil, count(0, 8), count(0, 32), 4)))
		}
		blocks := x.Hashes(nil, kvevents.Namespace{}, tokens(0, 32))
		dst := x.Overlaps(nil, blocks)
		require.Len(t, dst, 70)
		if invariants.Enabled {
			continue // under race the pool throws away what it is given
		}
		require.Zero(t, int(testing.AllocsPerRun(200, func() { dst = x.Overlaps(dst[:0], blocks) })))
	}
}

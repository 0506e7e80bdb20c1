package kvevents

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Source is where the events of one rank come from.
type Source struct {
	Rank sched.RankID
	// Events is the publisher's address, tcp://host:port or ipc://path.
	Events string
	// Replay is the address at which the engine answers what it published before. Without
	// one, all that is known of the rank is forgotten with every gap and lost connection.
	Replay string
	// Topic is the beginning of the topics to be followed, empty for all.
	Topic string
	// TotalKVBlocks is that of sched.Worker: a rank that seems to hold more than twice so
	// many blocks is read anew. 0 bounds it by about a million.
	TotalKVBlocks int64
	// Reports is the data-parallel rank that the engine says it is, nil for Rank.Rank.
	Reports *uint32
}

// Check says what is wrong with the source itself, nil if it may work.
func (s *Source) Check() error {
	var faults []error
	for _, at := range []string{s.Events, s.Replay} {
		if at == "" && s.Events != "" {
			continue
		}
		if _, _, err := endpoint(at); err != nil {
			faults = append(faults, err)
		}
	}
	if s.TotalKVBlocks < 0 {
		faults = append(faults, fmt.Errorf("kvevents: %d KV blocks: must not be negative", s.TotalKVBlocks))
	}
	return errors.Join(faults...)
}

// ErrFollowed says that somebody follows this rank already.
var ErrFollowed = errors.New("kvevents: the rank is followed already")

var (
	errGap   = errors.New("kvevents: batches are missing and the engine does not repeat them")
	errOrder = errors.New("kvevents: replay is out of order")
	errOften = errors.New("kvevents: batches were missing three times in short order")
	errRank  = errors.New("kvevents: batch of another data-parallel rank")
)

const (
	// backOff is the rest after what will not be better at once; lives shorter than calm do
	// not reset the pauses between connections.
	backOff    = 30 * time.Second
	soon       = time.Second
	calm       = 10 * time.Second
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// recent is how many fingerprints are kept, more than an engine repeats.
	recent = 1 << 14
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Follow keeps the index up with one rank's engine until ctx ends; then the rank is
// forgotten and Follow returns nil. It connects again by itself, as often as needed. An
// error means a source that cannot work: an address that is none, a rank that is followed
// already, or block sizes that do not fit.
//
// Sequence numbers start anew with each life of an engine, so they do not tell a restart
// from a gap. Therefore Follow asks, after a gap or a lost connection, for the last batch
// that it has, too: the same bytes (they hold a time) mean the same life, and what follows
// is applied; else the rank is cleared and all that the engine repeats is read.
func (x *Index) Follow(ctx context.Context, s Source) error {
	if err := s.Check(); err != nil {
		return err
	}
	f := &follower{x: x, s: s, reports: int64(s.Rank.Rank)}
	if s.Reports != nil {
		f.reports = int64(*s.Reports)
	}
	x.mu.Lock()
	if x.mu.followed[s.Rank] {
		x.mu.Unlock()
		return fmt.Errorf("%w: %v", ErrFollowed, s.Rank)
	}
	x.mu.followed[s.Rank] = true
	x.mu.Unlock()
	defer f.end()
	return f.run(ctx)
}

// follower follows one source, on one goroutine. Whatever is missing makes for doubt, and
// doubt has an end: the rank is live again, or after Config.Grace it does not count, or
// after Config.Forget it is cleared.
type follower struct {
	x       *Index
	s       Source
	r       *rank
	reports int64
	batch   Batch
	// sums are the fingerprints of the batches of this life, by sequence number.
	sums     []uint32
	identity []byte
	gaps     [3]time.Time // the last ones
}

// run connects until ctx ends.
func (f *follower) run(ctx context.Context) error {
	pause := firstPause
	for {
		f.adopt()
		start := time.Now()
		err := f.session(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // err is what the end of ctx made of the session
		}
		var size *BlockSizeError
		if errors.As(err, &size) {
			return err
		}
		f.r.lose(err)
		if time.Since(start) > calm {
			pause = firstPause
		}
		wait := pause/2 + rand.N(pause/2+1)
		pause = min(2*pause, lastPause)
		if errors.Is(err, errOften) || errors.Is(err, ErrTooManyBlocks) || errors.Is(err, errRank) {
			wait = backOff
		}
		if errors.Is(err, errGone) {
			wait = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// adopt takes the rank of the source, a new one if it was forgotten.
func (f *follower) adopt() {
	r := f.x.rank(f.s.Rank)
	if r == f.r {
		return
	}
	f.r = r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.known = false
	if f.s.TotalKVBlocks > 0 {
		r.mu.most = int(min(2*f.s.TotalKVBlocks, math.MaxInt32))
	}
	r.doubtLocked(Lost)
}

// end forgets the rank.
func (f *follower) end() {
	f.x.mu.Lock()
	delete(f.x.mu.followed, f.s.Rank)
	r := f.x.mu.byID[f.s.Rank]
	delete(f.x.mu.byID, f.s.Rank)
	f.x.mu.Unlock()
	if r != nil {
		f.x.drop(r)
	}
}

// session is one connection, from its beginning to its end.
func (f *follower) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sub, err := connect(ctx, f.x.dial, f.s.Events, "SUB", "PUB")
	if err != nil {
		return err
	}
	defer sub.close()
	// What comes from here on waits in the connection while the past is read. What came
	// before the publisher took note shows as a gap, or in an audit: the first is soon, as
	// that is when something is likely to be missing.
	if err = sub.send("\x01" + f.s.Topic); err != nil {
		return err
	}
	if err = f.catchUp(ctx); err != nil {
		return err
	}
	for audit := min(soon, f.x.config.Audit); ; audit = f.x.config.Audit {
		err = sub.message(audit)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if f.s.Replay != "" {
				if err = f.catchUp(ctx); err != nil {
					return err
				}
			}
			continue
		}
		if err != nil {
			return err
		}
		m, err := sub.numbered()
		if err != nil {
			return err
		}
		if err = f.live(ctx, m); err != nil {
			return err
		}
	}
}

// live takes in a message of the stream.
func (f *follower) live(ctx context.Context, m message) error {
	fit := f.fits(m)
	if fit == inOrder {
		return f.apply(m)
	}
	if fit == repeated {
		return nil
	}
	if err := f.gap(); err != nil {
		return err
	}
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	switch f.fits(m) {
	case inOrder:
		return f.apply(m)
	case repeated:
		return nil
	default:
		f.reset()
		return errGap
	}
}

type fit int

const (
	inOrder  fit = iota // the next one
	repeated            // one that was applied
	unfit               // one after others that are missing, or of another life
)

func (f *follower) fits(m message) fit {
	last, known := f.r.last()
	switch {
	case !known && (f.s.Replay == "" || m.seq == 0):
		return inOrder
	case !known || !bytes.Equal(m.identity, f.identity):
		return unfit
	case m.seq == last+1:
		return inOrder
	case m.seq <= last && last-m.seq < recent && f.sums[m.seq%recent] == sum(m.payload):
		return repeated
	default:
		return unfit
	}
}

// gap takes note that something is missing, and gives up for a while if that happens
// over and over: then this program is too slow for the stream.
func (f *follower) gap() error {
	now := time.Now()
	f.gaps = [3]time.Time{f.gaps[1], f.gaps[2], now}
	often := !f.gaps[0].IsZero() && now.Sub(f.gaps[0]) < backOff
	f.r.mu.Lock()
	f.r.mu.stats.Gaps++
	f.r.doubtLocked(CatchingUp)
	f.r.mu.Unlock()
	if often {
		f.gaps = [3]time.Time{}
		f.reset()
		return errOften
	}
	return nil
}

// catchUp reads what is missing and ends the doubt.
func (f *follower) catchUp(ctx context.Context) error {
	if f.x.rank(f.s.Rank) != f.r {
		return errGone
	}
	last, known := f.r.last()
	if f.s.Replay == "" {
		if known {
			f.reset()
		}
		f.r.resolve()
		return nil
	}
	if known {
		same, err := f.replay(ctx, last)
		if err != nil {
			return err
		}
		if same {
			f.r.resolve()
			return nil
		}
		f.reset()
	}
	if _, err := f.replay(ctx, 0); err != nil {
		return err
	}
	f.r.resolve()
	return nil
}

// replay has the engine repeat what it published from a number on and applies it. If the
// rank's life is known, the first must be the last that was applied; it returns false,
// with nothing applied, if it is not.
func (f *follower) replay(ctx context.Context, from uint64) (same bool, err error) {
	last, known := f.r.last()
	dealer, err := connect(ctx, f.x.dial, f.s.Replay, "DEALER", "ROUTER")
	if err != nil {
		return false, err
	}
	defer dealer.close()
	f.r.catchingUp()
	if err = dealer.send("", string(binary.BigEndian.AppendUint64(nil, from))); err != nil {
		return false, err
	}
	for first := true; ; first = false {
		if err = dealer.message(replyTime); err != nil {
			return false, fmt.Errorf("kvevents: replay: %w", err)
		}
		m, err := dealer.numbered()
		if err != nil {
			return false, err
		}
		if m.seq == math.MaxUint64 {
			return known && !first, nil
		}
		if first && known {
			if m.seq != last || sum(m.payload) != f.sums[last%recent] || !bytes.Equal(m.identity, f.identity) {
				return false, nil
			}
			continue
		}
		if at, ok := f.r.last(); ok && m.seq != at+1 {
			return false, errOrder
		}
		if err = f.apply(m); err != nil {
			return false, err
		}
	}
}

// apply takes in the next batch of this life.
func (f *follower) apply(m message) error {
	err := Decode(m.payload, &f.batch)
	if err == nil && f.batch.Rank >= 0 && f.batch.Rank != f.reports {
		f.reset()
		return fmt.Errorf("%w: %d, want %d", errRank, f.batch.Rank, f.reports)
	}
	if err != nil {
		f.r.spoiled(err) // it may have removed anything
		f.batch.reset()
	}
	if err = f.r.apply(&f.batch); err != nil {
		f.reset()
		return err
	}
	if f.sums == nil {
		f.sums = make([]uint32, recent)
	}
	f.sums[m.seq%recent] = sum(m.payload)
	f.identity = append(f.identity[:0], m.identity...)
	f.r.applied(m.seq, len(m.payload))
	return nil
}

// reset forgets all of the rank: it may be of another life.
func (f *follower) reset() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.r.mu.stats.Resets++
	f.r.forgetLocked()
}

func sum(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }

// lost makes of the end of a connection an error that says so.
func lost(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("kvevents: the engine closed the connection: %w", err)
	}
	return err
}

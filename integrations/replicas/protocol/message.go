package protocol

// Kind says what a message is.
type Kind uint8

// The kinds of messages.
const (
	// Batch has the ranks on which the sender's load has changed.
	Batch Kind = iota + 1
	// Beat says that the sender is there, up to which Batch it has told, and what all
	// it causes amounts to.
	Beat
	// State has everything that the sender causes, in one or more parts.
	State
	// Hello asks everybody for a State.
	Hello
	// Want asks one for a State.
	Want
	// Bye says that the sender goes and causes nothing any more.
	Bye
	kinds
)

var kindNames = [kinds]string{"", "batch", "beat", "state", "hello", "want", "bye"}

// String returns the kind's name.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return "unknown"
}

// Rank names one rank of one worker.
type Rank struct {
	Worker uint64
	Rank   uint32
}

// Load is what a replica causes on a rank, as absolute sums.
type Load struct {
	Rank
	Prefill  int64 // active tokens
	Blocks   int64
	Requests int64
	// Version is the number of the Batch that told it first.
	Version uint64
}

func (l *Load) zero() bool { return l.Prefill|l.Blocks|l.Requests == 0 }

// Message is what one replica sends.
type Message struct {
	Kind Kind
	// From is the sender's name, unique among the replicas of a pool; Incarnation
	// grows with each start under that name.
	From        string
	Incarnation uint64
	// To is the name of the one whom the message is for; empty for all. It is not
	// encoded: the transport knows.
	To string
	// Number is that of a Batch; else of the last one before the message.
	Number uint64
	// Digest is of all that the sender causes; of Beat.
	Digest uint64
	// Part of Parts, from 0, is which piece of a State this is.
	Part, Parts uint32
	Loads       []Load
}

// digest mixes what a load says. The digests of loads are combined by exclusive or, so
// that one is exchanged without the others.
func (l *Load) digest() uint64 {
	if l.zero() {
		return 0 // as if it were not there
	}
	const prime = 0x9e3779b97f4a7c15
	h := uint64(prime)
	for _, v := range [...]uint64{l.Worker, uint64(l.Rank.Rank), uint64(l.Prefill), uint64(l.Blocks), uint64(l.Requests), l.Version} {
		h = (h ^ v) * prime
		h ^= h >> 32
	}
	return h
}

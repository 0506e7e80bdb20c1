package workload

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Config says what Generate makes.
type Config struct {
	// Requests is how many, at least 1.
	Requests int
	// Seed decides everything that is drawn.
	Seed uint64
	// Block is the block size in tokens, at least 1.
	Block int64
	// Rate is the mean number of arrivals per second, above 0.
	Rate float64
}

// The shape of the generated chat service. Times are in seconds, lengths in
// tokens; a log-normal length is given by its median and the sigma of its log.
const (
	meanTurns  = 4.0
	thinkMean  = 8.0
	maxContext = 16384

	systemPrompts   = 4
	systemMin       = 512
	systemMax       = 2048
	documentShare   = 0.2 // of conversations open with a document
	documentMedian  = 2000
	documentSigma   = 0.8
	messageMedian   = 160
	messageSigma    = 0.9
	outputMedian    = 120
	outputSigma     = 0.8
	outputMax       = 1200
	secondsPerToken = 0.02 // a user reads and waits for the answer before the next turn

	// Arrivals come in bursts: calm and burst alternate, and the intensities
	// are such that the mean is 1.
	burstMean      = 1.5
	burstIntensity = 3.0
	calmMean       = 6.0
	calmIntensity  = 0.5

	// Conversations have begun this long before time 0, so that the load is
	// steady from the start.
	warmUp = 60.0
)

// Generate returns the requests of a chat service, in order of arrival: many
// conversations at once, each of several turns whose prompt repeats all that
// was said before, over a few system prompts that conversations share. Arrivals
// are an open loop, and bursty. The same config gives the same requests.
func Generate(c Config) []Request {
	g := &generator{
		Config: c,
		rng:    rand.New(rand.NewPCG(c.Seed, 0x7475726e7374696c)),
	}
	for range systemPrompts {
		g.systems = append(g.systems, systemMin+g.rng.Int64N(systemMax-systemMin+1))
	}
	for {
		// A margin over the wanted span, for what the last conversations say
		// after it; more if that was not enough.
		span := float64(c.Requests) / c.Rate * (1.1 + 0.5*float64(g.tries))
		if out := g.conversations(span + 10); len(out) >= c.Requests {
			return g.finish(out[:c.Requests])
		}
		g.tries++
	}
}

type generator struct {
	Config
	rng     *rand.Rand
	systems []int64 // lengths of the system prompts
	tries   int
}

// conversations returns the turns that fall in [0, span), in order, with At in
// operational time: the time that passes evenly with arrivals.
func (g *generator) conversations(span float64) []Request {
	var out []Request
	gap := meanTurns / g.Rate
	number := int64(0)
	for at := -warmUp + g.rng.ExpFloat64()*gap; at < span; at += g.rng.ExpFloat64() * gap {
		number++
		out = g.conversation(out, number, at, span)
	}
	slices.SortStableFunc(out, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return out
}

func (g *generator) conversation(out []Request, number int64, at, span float64) []Request {
	system := g.systemPrompt()
	class := classOf(g.rng.Uint64())
	context := g.systems[system]
	if g.rng.Float64() < documentShare {
		context += g.length(documentMedian, documentSigma)
	}
	for {
		context += g.length(messageMedian, messageSigma)
		osl := min(g.length(outputMedian, outputSigma), outputMax)
		if context > maxContext || at >= span {
			return out
		}
		if at >= 0 {
			out = append(out, Request{
				At:           time.Duration(at * float64(time.Second)),
				ISL:          context,
				OSL:          osl,
				Blocks:       g.blocks(number, system, context),
				Conversation: number,
				Class:        class,
			})
		}
		if g.rng.Float64() < 1/meanTurns {
			return out
		}
		context += osl
		at += float64(osl)*secondsPerToken + g.rng.ExpFloat64()*thinkMean
	}
}

// systemPrompt draws one of the system prompts, each half as likely as the one
// before it.
func (g *generator) systemPrompt() int {
	i := 0
	for i < systemPrompts-1 && g.rng.Uint64()&1 == 0 {
		i++
	}
	return i
}

func (g *generator) length(median, sigma float64) int64 {
	return max(1, int64(median*math.Exp(sigma*g.rng.NormFloat64())))
}

// blocks returns the hashes of the full blocks of a prompt. What is said is
// only ever added to, so a block is known by its place and by whose it is: the
// system prompt's, or the conversation's from the first block they share on.
func (g *generator) blocks(number int64, system int, isl int64) []uint64 {
	out := make([]uint64, isl/g.Block)
	shared := g.systems[system] / g.Block
	for i := range out {
		owner := uint64(number) << 8
		if int64(i) < shared {
			owner = uint64(system)
		}
		out[i] = mix(mix(g.Seed, owner), uint64(i))
	}
	return out
}

// finish maps operational time to real time through alternating calm and burst.
func (g *generator) finish(out []Request) []Request {
	var (
		from, passed float64 // where the phase began, in real and operational time
		burst        = true
		length       float64
		intensity    = 1.0
	)
	for i := range out {
		at := out[i].At.Seconds()
		for at >= passed+length*intensity {
			from, passed = from+length, passed+length*intensity
			burst = !burst
			mean := calmMean
			intensity = calmIntensity
			if burst {
				mean, intensity = burstMean, burstIntensity
			}
			length = g.rng.ExpFloat64() * mean
		}
		out[i].At = time.Duration((from + (at-passed)/intensity) * float64(time.Second))
	}
	first := out[0].At
	for i := range out {
		out[i].At -= first
	}
	return out
}

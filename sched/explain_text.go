package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/text"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// mostShown is how many ranks String prints.
const mostShown = 40

// String prints the explanation in lines of text, with the ranks as a table. Of a
// large pool it prints the ranks that are most likely to be chosen or, without
// chances, the cheapest.
func (e *Explanation) String() string {
	var b strings.Builder
	name := "request"
	if e.Request != "" {
		name = fmt.Sprintf("request %q", e.Request)
	}
	switch e.Outcome {
	case OutcomeAdmitted:
		fmt.Fprintf(&b, "%s would be booked on rank %v: %s\n", name, e.Rank, e.Why)
	case OutcomeQueued:
		fmt.Fprintf(&b, "%s would wait in line: %s\n", name, e.Why)
	default:
		fmt.Fprintf(&b, "%s would be refused: %s\n", name, strings.TrimPrefix(e.Why, "turnstile: "))
	}
	fmt.Fprintf(&b, "  %d tokens, %d blocks, %d tokens cached at best; selector %s\n", e.ISL, e.Blocks, e.Line.Cached, e.Selector)
	e.Line.write(&b, e.Outcome)
	e.writeClasses(&b)
	e.writeRanks(&b)
	return b.String()
}

func (l *LineExplanation) write(b *strings.Builder, outcome Outcome) {
	waits := "need not wait"
	if l.MustWait {
		waits = "cannot run now"
	}
	if l.Unknown != "" {
		fmt.Fprintf(b, "  there is no class or family %q: the default family holds\n", l.Unknown)
	}
	fmt.Fprintf(b, "  class %s, priority %d, charged %d tokens, lane: %s\n", l.Class, l.Priority, l.Cost, l.Lane)
	if outcome != OutcomeQueued { // else it is the reason, said above
		fmt.Fprintf(b, "  %s: %s\n", waits, l.Why)
	}
	if l.MustWait || l.Ahead > 0 {
		fmt.Fprintf(b, "  ahead of it in its class: %d, in its lane: %d\n", l.Ahead, l.AheadInLane)
	}
}

func (e *Explanation) writeClasses(b *strings.Builder) {
	t := text.Table{{"", "class", "order", "quantum", "deficit", "waiting", "tokens", "cached", "oldest", "limits"}}
	for i := range e.Classes {
		c := &e.Classes[i]
		if len(e.Classes) == 1 && !c.CanQueue {
			return
		}
		mark := ""
		if c.Name == e.Line.Class {
			mark = ">"
		}
		oldest := ""
		if c.Pending > 0 {
			oldest = c.Oldest.Round(time.Millisecond).String()
		}
		t = append(t, []string{
			mark, c.Name, c.Order, text.Number(c.Quantum), text.Number(c.Deficit), text.Number(c.Pending), text.Number(c.Tokens),
			text.Number(c.Cached), oldest, c.limitsInWords(),
		})
	}
	b.WriteByte('\n')
	t.Write(b, "class", "order", "limits")
}

func (c *ClassLine) limitsInWords() string {
	switch {
	case c.NeverQueues && c.CanQueue:
		return "never queues"
	case !c.CanQueue:
		return "no threshold"
	case len(c.Limits) == 0:
		return "none"
	}
	var words []string
	for _, l := range c.Limits {
		words = append(words, fmt.Sprintf("%s %d of %d", l.Limit, l.Usage, l.Bound))
	}
	return strings.Join(words, ", ")
}

func (e *Explanation) writeRanks(b *strings.Builder) {
	shown, left := e.shown()
	kv := slices.ContainsFunc(shown, func(x *RankExplanation) bool { return x.Cost != nil })
	scored := !kv && slices.ContainsFunc(shown, func(x *RankExplanation) bool { return x.Score != nil })
	head := []string{"", "rank", "active prefill", "blocks", "requests", "cached", "busy above"}
	switch {
	case kv:
		head = append(head, "raw prefill", "credit", "prefill cost", "decode cost", "request cost", "taints", "cost")
	case scored:
		head = append(head, "score")
	}
	t := text.Table{append(head, "chance", "state")}
	for _, x := range shown {
		row := []string{
			"", x.Rank.String(), text.Number(x.PrefillTokens), text.Number(x.Blocks), text.Number(x.Requests),
			text.Number(x.CachedTokens), x.busyFor(e.Line.Class),
		}
		if x.Chosen {
			row[0] = ">"
		}
		switch {
		case kv && x.Cost != nil:
			row = append(row, partsInWords(x.Cost)...)
		case kv:
			row = append(row, "", "", "", "", "", "", "")
		case scored && x.Score != nil:
			row = append(row, text.Decimal(*x.Score))
		case scored:
			row = append(row, "")
		}
		t = append(t, append(row, x.chance(), x.state()))
	}
	b.WriteByte('\n')
	t.Write(b, "rank", "state")
	if left > 0 {
		fmt.Fprintf(b, "  and %d more\n", left)
	}
}

// shown picks the ranks to print, in rank order.
func (e *Explanation) shown() (ranks []*RankExplanation, left int) {
	for i := range e.Ranks {
		ranks = append(ranks, &e.Ranks[i])
	}
	if len(ranks) <= mostShown {
		return ranks, 0
	}
	cost := func(x *RankExplanation) float64 {
		switch {
		case x.Cost != nil:
			return x.Cost.Total
		case x.Score != nil:
			return *x.Score
		default:
			return 0
		}
	}
	slices.SortStableFunc(ranks, func(x, y *RankExplanation) int {
		switch {
		case x.Chosen != y.Chosen:
			return before(x.Chosen)
		case x.Eligible != y.Eligible:
			return before(x.Eligible)
		case x.Chance != y.Chance:
			return before(x.Chance > y.Chance)
		case cost(x) != cost(y):
			return before(cost(x) < cost(y))
		default:
			return 0
		}
	})
	left = len(ranks) - mostShown
	ranks = ranks[:mostShown]
	slices.SortFunc(ranks, func(x, y *RankExplanation) int { return x.Rank.Compare(y.Rank) })
	return ranks, left
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}

func (x *RankExplanation) busyFor(class string) string {
	for _, busy := range x.Busy {
		if busy.Class == class {
			return busy.bounds()
		}
	}
	return "-"
}

// bounds says with what load a rank is busy: tokens, requests, blocks.
func (b *ClassBusy) bounds() string {
	var bounds []string
	if b.Above != NoThreshold {
		bounds = append(bounds, text.Number(b.Above))
	}
	if b.MaxRequests > 0 {
		bounds = append(bounds, fmt.Sprintf("%d requests", b.MaxRequests-1))
	}
	if b.BlocksAbove != nil {
		bounds = append(bounds, text.Number(*b.BlocksAbove)+" blocks")
	}
	if bounds == nil {
		return "-"
	}
	return strings.Join(bounds, ", ")
}

func (x *RankExplanation) chance() string {
	switch {
	case x.ChanceKnown && x.Chance == 0:
		return "-"
	case x.ChanceKnown:
		return text.Decimal(100*x.Chance) + "%"
	case x.Chosen:
		return "chosen"
	default:
		return "?"
	}
}

// state says what speaks against a rank and for which classes it is busy.
func (x *RankExplanation) state() string {
	words := make([]string, 0, len(x.Against)+1)
	for _, o := range x.Against {
		words = append(words, o.Detail)
	}
	if len(words) == 0 {
		words = append(words, "eligible")
	}
	if x.Barred != "" {
		words = append(words, "not chosen: "+x.Barred)
	}
	var busy []string
	for _, b := range x.Busy {
		if b.Busy {
			busy = append(busy, b.Class)
		}
	}
	if len(busy) > 0 {
		words = append(words, "busy for "+strings.Join(busy, " "))
	}
	return strings.Join(words, "; ")
}

// partsInWords are the terms of a cost, those that change nothing left empty.
func partsInWords(p *selector.CostParts) []string {
	credit, taints := "", ""
	if sum := p.Device + p.Host + p.Disk; sum != 0 {
		credit = text.Decimal(sum)
		var of []string
		for _, tier := range []struct {
			name   string
			credit float64
		}{{"device", p.Device}, {"host", p.Host}, {"disk", p.Disk}} {
			if tier.credit != 0 && tier.credit != sum {
				of = append(of, tier.name+" "+text.Decimal(tier.credit))
			}
		}
		if len(of) > 0 {
			credit += " (" + strings.Join(of, ", ") + ")"
		}
		if p.Decay != 1 {
			credit += " decayed ×" + text.Decimal(p.Decay)
		}
	}
	if p.TaintFactor != 1 {
		taints = "×" + text.Decimal(p.TaintFactor)
	}
	return []string{
		text.Decimal(p.Raw), credit, text.Decimal(p.Prefill), text.Decimal(p.Decode), text.Decimal(p.Requests), taints, text.Decimal(p.Total),
	}
}

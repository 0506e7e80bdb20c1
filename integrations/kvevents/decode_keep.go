package kvevents

import (
	"slices"
	"strconv"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// keep puts the event into the batch, if it is whole.
func (d *decoder) keep() error {
	e := &d.e.event
	e.kind = d.e.tag
	switch {
	case e.kind == unknownKind:
		d.b.Unknown++
		return nil
	case e.kind == cleared:
		e.hashes, e.tokens = stretch{}, stretch{}
		d.e.names, d.e.left = list{}, list{}
	case e.other, e.tier == elsewhere:
		d.b.tokens = d.b.tokens[:len(d.b.tokens)-int(e.tokens.n)]
		return nil // understood, and not about prefixes in this rank's cache
	}
	if e.kind == stored {
		if err := d.settleStored(); err != nil {
			return err
		}
	}
	if d.budget -= eventBytes + 8*int64(d.e.names.n+d.e.left.n); d.budget < 0 {
		return errRange
	}
	var err error
	if e.hashes, err = d.numbers(d.e.names, d.r.hash); err != nil {
		return err
	}
	if e.copies, err = d.numbers(d.e.left, d.r.integer); err != nil {
		return err
	}
	if e.copies.n > 0 && e.copies.n != e.hashes.n {
		return errContradicts
	}
	if e.space = uint32(len(d.b.spaces) - 1); d.b.spaces[e.space] != d.e.space {
		d.b.spaces = append(d.b.spaces, d.e.space)
		e.space++
		if d.budget -= spaceBytes + int64(len(d.e.space.LoRA)+len(d.e.space.Salt)); d.budget < 0 {
			return errRange
		}
	}
	d.b.events = append(d.b.events, *e)
	return nil
}

// What an event and a namespace take in a batch.
const (
	eventBytes = 56
	spaceBytes = 32
)

// settleStored makes of the fields what they mean together.
func (d *decoder) settleStored() error {
	e := &d.e.event
	if e.tokens.n > 0 && uint64(d.e.names.n)*uint64(e.size) != uint64(e.tokens.n) {
		return errContradicts
	}
	// Engines that do not name adapters number them: the number is the name then.
	if d.e.space.LoRA == "" && d.e.loraID > 0 {
		d.e.space.LoRA = strconv.FormatInt(d.e.loraID, 10)
	}
	if d.e.keys == 0 {
		return nil
	}
	d.r.at = d.e.keys
	n, err := d.r.array()
	for i := 0; i < n && err == nil; i++ {
		var other bool
		if other, err = d.extra(e.root && i == 0); other {
			e.keyed = min(e.keyed, uint32(i))
		}
	}
	return err
}

// extra reads what one block depends on besides its tokens and says whether that is
// more than its namespace. The salt comes with the first block of a chain only, as a
// text beside the adapter's name.
func (d *decoder) extra(first bool) (other bool, err error) {
	c, err := d.r.peek()
	if err != nil {
		return true, err
	}
	if c != msgpcode.Nil && !isArray(c) {
		return true, d.r.skip()
	}
	n, err := d.r.array()
	salts := 0
	for ; n > 0 && err == nil; n-- {
		if c, err = d.r.peek(); err != nil {
			break
		}
		if !msgpcode.IsString(c) {
			other = true
			err = d.r.skip()
			continue
		}
		var text string
		if text, err = d.r.name(); text == d.e.space.LoRA || (first && text == d.e.space.Salt) {
			continue
		}
		if salts++; !first || salts > 1 {
			other = true
			continue
		}
		d.e.space.Salt = text
	}
	return other, err
}

// numbers reads a list that was passed over.
func (d *decoder) numbers(l list, read func() (uint64, error)) (stretch, error) {
	if l.n == 0 {
		return stretch{}, nil
	}
	d.r.at = l.at
	if _, err := d.r.array(); err != nil {
		return stretch{}, err
	}
	s := stretch{uint32(len(d.b.hashes)), uint32(l.n)}
	d.b.hashes = slices.Grow(d.b.hashes, l.n)
	for range l.n {
		n, err := read()
		if err != nil {
			return s, err
		}
		d.b.hashes = append(d.b.hashes, n)
	}
	return s, nil
}

package kvevents

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

var errContradicts = errors.New("kvevents: event contradicts itself")

// Decode reads the payload of one message, as vLLM, SGLang, TensorRT-LLM and the
// simulators that follow them write it. Events may be maps or arrays, also in one
// batch: fields are taken by name or by place, what is unknown is passed over, and an
// event that cannot be read is counted in b and costs nothing but itself. An error
// means that the payload is no batch; b is empty then.
//
// What b allocates stays below four times the payload and 64 KiB, whatever the payload
// claims. The payload may be changed or used again afterwards.
func Decode(payload []byte, b *Batch) error {
	b.reset()
	b.reader.reset(payload)
	d := decoder{r: &b.reader, b: b, budget: 4*int64(len(payload)) + 64<<10}
	if err := d.batch(); err != nil {
		b.reset()
		return fmt.Errorf("kvevents: decode: %w", err)
	}
	return nil
}

type decoder struct {
	r      *reader
	b      *Batch
	budget int64 // bytes that the rest of the batch may still allocate
	e      draft
}

// draft is an event as it stands on the wire. Lists whose meaning depends on fields
// that may come later are kept as places in the payload.
type draft struct {
	event
	tag         kind
	names, left list // of hashes, and of how many copies are left of each
	keys        int  // where extra keys stand, 0 for none
	loraID      int64
	space       Namespace
}

type list struct {
	at, n int
}

func (d *decoder) batch() error {
	c, err := d.r.peek()
	if err != nil {
		return err
	}
	if isArray(c) {
		return d.batchArray()
	}
	n, err := d.r.mapping() // one revision of vLLM writes a map
	for ; n > 0 && err == nil; n-- {
		var key []byte
		if key, err = d.r.blob(); err != nil {
			break
		}
		switch string(key) {
		case "ts":
			d.b.Time, err = d.r.float()
		case "events":
			err = d.events()
		case "data_parallel_rank":
			err = d.rank()
		default:
			err = d.r.skip()
		}
	}
	return err
}

func (d *decoder) batchArray() error {
	n, err := d.r.array()
	if err != nil {
		return err
	}
	if n < 2 {
		return errType
	}
	if d.b.Time, err = d.r.float(); err != nil {
		return err
	}
	if err = d.events(); err != nil {
		return err
	}
	if n > 2 {
		if err = d.rank(); err != nil {
			return err
		}
	}
	for ; n > 3 && err == nil; n-- {
		err = d.r.skip()
	}
	return err
}

func (d *decoder) rank() error {
	if null, err := d.r.null(); null || err != nil {
		return err
	}
	n, err := d.r.number()
	d.b.Rank = int64(n)
	return err
}

func (d *decoder) events() error {
	n, err := d.r.array()
	for ; n > 0 && err == nil; n-- {
		start := d.r.at
		mark := [...]int{len(d.b.hashes), len(d.b.tokens), len(d.b.events)}
		if d.event() == nil {
			continue
		}
		// Where a bad event ends is known by its shape alone.
		d.b.hashes, d.b.tokens, d.b.events = d.b.hashes[:mark[0]], d.b.tokens[:mark[1]], d.b.events[:mark[2]]
		d.r.at = start
		if err = d.r.skip(); err == nil {
			d.b.Bad++
		}
	}
	return err
}

// event reads one event to its end.
func (d *decoder) event() error {
	d.e = draft{event: event{keyed: math.MaxUint32, group: noGroup, root: true}, loraID: -1}
	c, err := d.r.peek()
	if err != nil {
		return err
	}
	if isArray(c) {
		err = d.eventArray()
	} else {
		err = d.eventMap()
	}
	if err != nil {
		return err
	}
	end := d.r.at
	err = d.keep()
	d.r.at = end
	return err
}

func (d *decoder) eventMap() error {
	n, err := d.r.mapping()
	if err == nil && n <= 0 {
		err = errType
	}
	tagged := false
	for ; n > 0 && err == nil; n-- {
		var key []byte
		if key, err = d.r.blob(); err != nil {
			break
		}
		if string(key) == "type" {
			tagged = true
			err = d.tag()
			continue
		}
		if tagged && d.e.tag == unknownKind {
			err = d.r.skip()
			continue
		}
		err = d.field(string(key))
	}
	if err == nil && !tagged {
		err = errType
	}
	return err
}

// The places of the fields in the array form. Later ones may be missing.
var (
	storedPlaces = [...]string{
		"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
		"extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
	}
	removedPlaces = [...]string{"block_hashes", "medium", "group_idx"}
)

func (d *decoder) eventArray() error {
	n, err := d.r.array()
	if err != nil {
		return err
	}
	if n <= 0 {
		return errType
	}
	if err = d.tag(); err != nil {
		return err
	}
	var places []string
	switch d.e.tag {
	case stored:
		places = storedPlaces[:]
	case removed:
		places = removedPlaces[:]
	default:
	}
	for i := 0; i < n-1 && err == nil; i++ {
		if i < len(places) {
			err = d.field(places[i])
		} else {
			err = d.r.skip()
		}
	}
	return err
}

func (d *decoder) tag() error {
	tag, err := d.r.blob()
	if err != nil {
		return err
	}
	switch string(tag) {
	case "BlockStored":
		d.e.tag = stored
	case "BlockRemoved":
		d.e.tag = removed
	case "AllBlocksCleared":
		d.e.tag = cleared
	default:
		d.e.tag = unknownKind
	}
	return nil
}

// field reads the value of one field.
func (d *decoder) field(name string) (err error) {
	switch name {
	case "block_hashes":
		d.e.names, err = d.list()
	case "remaining_copy_counts":
		d.e.left, err = d.list()
	case "parent_block_hash":
		if d.e.root, err = d.r.null(); err == nil && !d.e.root {
			d.e.parent, err = d.r.hash()
		}
	case "token_ids":
		err = d.tokens()
	case "block_size":
		err = d.optional(&d.e.size)
	case "lora_id":
		var null bool
		if null, err = d.r.null(); err == nil && !null {
			var n uint64
			n, err = d.r.integer()
			d.e.loraID = int64(n)
		}
	case "medium":
		err = d.medium()
	case "lora_name":
		err = d.lora()
	case "cache_salt":
		d.e.space.Salt, err = d.r.name()
	case "extra_keys":
		d.e.keys = d.r.at
		err = d.r.skip()
	case "group_idx":
		err = d.optional(&d.e.group)
	case "kv_cache_spec_kind":
		err = d.spec()
	case "locality":
		var where string
		if where, err = d.r.name(); where != "" && !strings.EqualFold(where, "LOCAL") {
			d.e.tier = elsewhere
		}
	default:
		err = d.r.skip()
	}
	return err
}

// optional reads a number that may be nil.
func (d *decoder) optional(n *uint32) error {
	null, err := d.r.null()
	if !null && err == nil {
		*n, err = d.r.number()
	}
	return err
}

// list passes over a list and says where it stands.
func (d *decoder) list() (list, error) {
	at := d.r.at
	n, err := d.r.array()
	for i := 0; i < n && err == nil; i++ {
		err = d.r.skip()
	}
	return list{at, max(n, 0)}, err
}

// tokens reads the flat list of tokens, or that of pairs (token, successor) which
// SGLang has for speculative decoding; of these the first ones are kept.
func (d *decoder) tokens() error {
	n, err := d.r.array()
	if n <= 0 || err != nil {
		return err
	}
	c, err := d.r.peek()
	if err != nil {
		return err
	}
	if d.budget -= 4 * int64(n); d.budget < 0 {
		return errRange
	}
	from := len(d.b.tokens)
	d.b.tokens = slices.Grow(d.b.tokens, n)
	d.e.pairs = isArray(c)
	d.e.tokens = stretch{uint32(from), uint32(n)}
	for range n {
		if d.e.pairs {
			var pair int
			if pair, err = d.r.array(); err == nil && pair != 2 {
				err = errType
			}
			if err != nil {
				return err
			}
		}
		token, err := d.r.number()
		if err != nil {
			return err
		}
		d.b.tokens = append(d.b.tokens, token)
		if d.e.pairs {
			if _, err = d.r.number(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) medium() error {
	if null, err := d.r.null(); null || err != nil {
		return err
	}
	medium, err := d.r.blob()
	if err != nil || d.e.tier == elsewhere {
		return err
	}
	switch string(medium) {
	case "GPU", "gpu":
		d.e.tier = device
	case "CPU", "cpu", "CPU_TIER1":
		d.e.tier = host
	case "CPU_TIER2", "DISK", "disk":
		d.e.tier = disk
	default:
		d.e.tier = elsewhere
	}
	return nil
}

// lora reads the adapter's name. For a while SGLang had a map with the cache salt in
// its place.
func (d *decoder) lora() error {
	c, err := d.r.peek()
	if err != nil {
		return err
	}
	if !isMap(c) {
		d.e.space.LoRA, err = d.r.name()
		return err
	}
	n, err := d.r.mapping()
	for ; n > 0 && err == nil; n-- {
		var key []byte
		if key, err = d.r.blob(); err != nil {
			break
		}
		switch string(key) {
		case "cache_salt":
			d.e.space.Salt, err = d.r.name()
		case "lora_name":
			d.e.space.LoRA, err = d.r.name()
		default:
			err = d.r.skip()
		}
	}
	return err
}

// spec reads the kind of the cache group. Prefixes go by full attention alone.
func (d *decoder) spec() error {
	if null, err := d.r.null(); null || err != nil {
		return err
	}
	spec, err := d.r.blob()
	switch string(spec) {
	case "full_attention", "mla_attention", "sink_full_attention":
	default:
		d.e.other = true
	}
	return err
}

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

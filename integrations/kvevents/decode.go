package kvevents

import (
	"errors"
	"fmt"
	"math"
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

package kvevents

import (
	"slices"
	"strings"
)

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

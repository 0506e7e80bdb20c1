package kvevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/dchest/siphash"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

var (
	errType  = errors.New("kvevents: value of an unexpected type")
	errRange = errors.New("kvevents: value out of range")
)

// reader reads msgpack values of known types from a payload. It never makes a tree of
// them: that would allocate for each, and recurse as deep as the sender likes. Lists are
// never longer than the bytes that are left.
//
// The decoder of vmihailenco/msgpack, asked for one value at a time, takes twice as long
// for a whole batch: each token is read through an interface, in two steps.
type reader struct {
	src   []byte
	at    int
	names map[string]string // names seen before, so that each is allocated once
}

// Names are few: adapters and salts. What is more or longer is not kept.
const (
	mostNames   = 1024
	longestName = 256
)

func (r *reader) reset(payload []byte) {
	if r.names == nil {
		r.names = make(map[string]string)
	}
	r.src, r.at = payload, 0
}

func (r *reader) left() int { return len(r.src) - r.at }

func (r *reader) peek() (byte, error) {
	if r.at >= len(r.src) {
		return 0, io.ErrUnexpectedEOF
	}
	return r.src[r.at], nil
}

// take returns the next n bytes.
func (r *reader) take(n int) ([]byte, error) {
	if n > r.left() {
		return nil, io.ErrUnexpectedEOF
	}
	b := r.src[r.at : r.at+n]
	r.at += n
	return b, nil
}

// uint reads n bytes as a big-endian number.
func (r *reader) uint(n int) (uint64, error) {
	b, err := r.take(n)
	if err != nil {
		return 0, err
	}
	switch n {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), nil
	default:
		return binary.BigEndian.Uint64(b), nil
	}
}

// length reads a length of so many bytes and holds it against the bytes that are left.
func (r *reader) length(bytes int) (int, error) {
	n, err := r.uint(bytes)
	if err != nil {
		return 0, err
	}
	return r.bounded(int(n))
}

func (r *reader) bounded(n int) (int, error) {
	if n > r.left() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

// array returns the length of an array, -1 for nil.
func (r *reader) array() (int, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	r.at++
	switch {
	case msgpcode.IsFixedArray(c):
		return r.bounded(int(c & msgpcode.FixedArrayMask))
	case c == msgpcode.Array16:
		return r.length(2)
	case c == msgpcode.Array32:
		return r.length(4)
	case c == msgpcode.Nil:
		return -1, nil
	default:
		return 0, errType
	}
}

// mapping returns the number of pairs of a map.
func (r *reader) mapping() (int, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	r.at++
	switch {
	case msgpcode.IsFixedMap(c):
		return r.bounded(int(c & msgpcode.FixedMapMask))
	case c == msgpcode.Map16:
		return r.length(2)
	case c == msgpcode.Map32:
		return r.length(4)
	default:
		return 0, errType
	}
}

// blob reads text or bytes. They are the payload's.
func (r *reader) blob() ([]byte, error) {
	c, err := r.peek()
	if err != nil {
		return nil, err
	}
	r.at++
	n := 0
	switch {
	case msgpcode.IsFixedString(c):
		n = int(c & msgpcode.FixedStrMask)
	case c == msgpcode.Str8 || c == msgpcode.Bin8:
		n, err = r.length(1)
	case c == msgpcode.Str16 || c == msgpcode.Bin16:
		n, err = r.length(2)
	case c == msgpcode.Str32 || c == msgpcode.Bin32:
		n, err = r.length(4)
	default:
		err = errType
	}
	if err != nil {
		return nil, err
	}
	return r.take(n)
}

// name reads a text that is kept; nil is empty.
func (r *reader) name() (string, error) {
	if null, err := r.null(); null || err != nil {
		return "", err
	}
	text, err := r.blob()
	if err != nil {
		return "", err
	}
	if known, ok := r.names[string(text)]; ok {
		return known, nil
	}
	name := string(text)
	if len(name) <= longestName {
		if len(r.names) >= mostNames {
			clear(r.names)
		}
		r.names[name] = name
	}
	return name, nil
}

// null skips a nil, if that is what comes.
func (r *reader) null() (bool, error) {
	c, err := r.peek()
	if err != nil || c != msgpcode.Nil {
		return false, err
	}
	r.at++
	return true, nil
}

// integer reads a whole number, of which a negative one has its sign in the upper bits.
func (r *reader) integer() (uint64, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	r.at++
	switch {
	case c <= msgpcode.PosFixedNumHigh:
		return uint64(c), nil
	case c >= msgpcode.NegFixedNumLow:
		return uint64(int8(c)), nil
	case c >= msgpcode.Uint8 && c <= msgpcode.Uint64:
		return r.uint(1 << (c - msgpcode.Uint8))
	case c >= msgpcode.Int8 && c <= msgpcode.Int64:
		n, err := r.uint(1 << (c - msgpcode.Int8))
		unused := 64 - 8<<(c-msgpcode.Int8)
		return uint64(int64(n) << unused >> unused), err
	default:
		return 0, errType
	}
}

// float reads a number of any kind.
func (r *reader) float() (float64, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	switch c {
	case msgpcode.Double:
		r.at++
		n, err := r.uint(8)
		return math.Float64frombits(n), err
	case msgpcode.Float:
		r.at++
		n, err := r.uint(4)
		return float64(math.Float32frombits(uint32(n))), err
	default:
		n, err := r.integer()
		return float64(int64(n)), err
	}
}

// number reads a number from 0 to 2³²-1. Nearly all of a payload are tokens, and these
// are of three forms.
func (r *reader) number() (uint32, error) {
	if rest := r.src[r.at:]; len(rest) >= 5 {
		switch c := rest[0]; {
		case c <= msgpcode.PosFixedNumHigh:
			r.at++
			return uint32(c), nil
		case c == msgpcode.Uint16:
			r.at += 3
			return uint32(binary.BigEndian.Uint16(rest[1:])), nil
		case c == msgpcode.Uint32:
			r.at += 5
			return binary.BigEndian.Uint32(rest[1:]), nil
		}
	}
	n, err := r.integer()
	if err == nil && n > math.MaxUint32 {
		err = errRange
	}
	return uint32(n), err
}

// hash reads the name that an engine gives a block: a number, signed or not, or bytes.
// It means something within one life of one rank only, so what matters is that
// different names stay different: bytes become a number by a hash of theirs.
func (r *reader) hash() (uint64, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	if isText(c) {
		text, err := r.blob()
		return siphash.Hash(0, 0, text), err
	}
	return r.integer()
}

// skip passes over the next value and all that it holds. It counts what is to come
// instead of recursing.
func (r *reader) skip() error {
	for todo := int64(1); todo > 0; todo-- {
		c, err := r.peek()
		if err != nil {
			return err
		}
		var n int
		switch {
		case isArray(c):
			n, err = r.array()
			todo += int64(n)
		case isMap(c):
			n, err = r.mapping()
			todo += 2 * int64(n)
		case isText(c):
			_, err = r.blob()
		case msgpcode.IsExt(c):
			err = r.skipExt(c)
		case c == msgpcode.Nil || c == msgpcode.False || c == msgpcode.True:
			r.at++
		default:
			_, err = r.float()
		}
		if err != nil {
			return fmt.Errorf("kvevents: skip: %w", err)
		}
	}
	return nil
}

// skipExt passes over a value of an extension: a length, fixed or told, a type, bytes.
func (r *reader) skipExt(c byte) (err error) {
	r.at++
	var n int
	if msgpcode.IsFixedExt(c) {
		n = 1 << (c - msgpcode.FixExt1)
	} else {
		n, err = r.length(1 << (c - msgpcode.Ext8))
	}
	if err == nil {
		_, err = r.take(n + 1)
	}
	return err
}

func isArray(c byte) bool {
	return msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32
}

func isMap(c byte) bool {
	return msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32
}

func isText(c byte) bool { return msgpcode.IsString(c) || msgpcode.IsBin(c) }

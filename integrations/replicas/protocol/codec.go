package protocol

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The encoding is protobuf's, of the messages in replicas.proto, written and read by
// protowire: the reader checks each bound before it makes room for anything, which
// generated code cannot, and there is nothing to generate or to register.

// WireVersion is the first byte of every message.
const WireVersion = 1

// Bounds of what a message may hold.
const (
	MaxName  = 128
	MaxLoads = 4096
	MaxParts = 1 << 12
	// MaxAmount is the most that a load may say of anything.
	MaxAmount = 1 << 40
)

// ErrMalformed is matched by all errors of Decode.
var ErrMalformed = errors.New("replicas: malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Append appends the encoded message to dst.
func (m *Message) Append(dst []byte) []byte {
	dst = append(dst, WireVersion)
	dst = appendVarint(dst, 1, uint64(m.Kind))
	if m.From != "" {
		dst = protowire.AppendTag(dst, 2, protowire.BytesType)
		dst = protowire.AppendString(dst, m.From)
	}
	dst = appendFixed(dst, 3, m.Incarnation)
	dst = appendVarint(dst, 4, m.Number)
	dst = appendFixed(dst, 5, m.Digest)
	dst = appendVarint(dst, 6, uint64(m.Part))
	dst = appendVarint(dst, 7, uint64(m.Parts))
	var buf [64]byte
	for i := range m.Loads {
		dst = protowire.AppendTag(dst, 8, protowire.BytesType)
		dst = protowire.AppendBytes(dst, m.Loads[i].append(buf[:0], m.Number))
	}
	return dst
}

func (l *Load) append(dst []byte, number uint64) []byte {
	dst = appendVarint(dst, 1, l.Worker)
	dst = appendVarint(dst, 2, uint64(l.Rank.Rank))
	dst = appendVarint(dst, 3, uint64(l.Prefill))
	dst = appendVarint(dst, 4, uint64(l.Blocks))
	dst = appendVarint(dst, 5, uint64(l.Requests))
	if l.Version != number {
		dst = appendVarint(dst, 6, l.Version)
	}
	return dst
}

func appendVarint(dst []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func appendFixed(dst []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), v)
}

// Decode reads a message. Nothing of it refers to the bytes. What is out of bounds is
// an error, apart from a load's amounts, which are cut.
func Decode(b []byte) (m Message, err error) {
	if len(b) == 0 || b[0] != WireVersion {
		return m, malformed("not of version %d", WireVersion)
	}
	kind := uint64(0)
	err = fields(b[1:], func(field protowire.Number, v value) error {
		switch field {
		case 1:
			kind = v.number
		case 2:
			if len(v.bytes) > MaxName || !utf8.Valid(v.bytes) {
				return malformed("name of %d bytes: must be UTF-8 of at most %d", len(v.bytes), MaxName)
			}
			m.From = string(v.bytes)
		case 3:
			m.Incarnation = v.number
		case 4:
			m.Number = v.number
		case 5:
			m.Digest = v.number
		case 6:
			m.Part = uint32(min(v.number, math.MaxUint32))
		case 7:
			m.Parts = uint32(min(v.number, math.MaxUint32))
		case 8:
			if len(m.Loads) == MaxLoads {
				return malformed("more than %d loads", MaxLoads)
			}
			load, err := decodeLoad(v.bytes)
			m.Loads = append(m.Loads, load)
			return err
		default: // of a later version
		}
		return nil
	})
	switch {
	case err != nil:
		return Message{}, err
	case kind == 0 || kind >= uint64(kinds):
		return Message{}, malformed("kind %d is unknown", kind)
	case m.From == "":
		return Message{}, malformed("no sender")
	case m.Parts > MaxParts || m.Part > 0 && m.Part >= m.Parts:
		return Message{}, malformed("part %d of %d", m.Part, m.Parts)
	}
	m.Kind = Kind(kind)
	for i := range m.Loads {
		if l := &m.Loads[i]; l.Version == 0 {
			l.Version = m.Number
		}
	}
	return m, nil
}

func decodeLoad(b []byte) (l Load, err error) {
	err = fields(b, func(field protowire.Number, v value) error {
		switch field {
		case 1:
			l.Worker = v.number
		case 2:
			if v.number > math.MaxUint32 {
				return malformed("rank %d: must fit in 32 bits", v.number)
			}
			l.Rank.Rank = uint32(v.number)
		case 3:
			l.Prefill = amount(v.number)
		case 4:
			l.Blocks = amount(v.number)
		case 5:
			l.Requests = amount(v.number)
		case 6:
			l.Version = v.number
		default: // of a later version
		}
		return nil
	})
	return l, err
}

func amount(v uint64) int64 { return int64(min(v, MaxAmount)) }

// value is that of one field: a number, or bytes that must not be kept.
type value struct {
	number uint64
	bytes  []byte
}

// fields calls f with each field. A field of another type than it should have reads as
// nothing or as a number, which the bounds hold for.
func fields(b []byte, f func(protowire.Number, value) error) error {
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformed("%v", protowire.ParseError(n))
		}
		b = b[n:]
		var v value
		switch typ {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v.number, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, typ, b)
		}
		if n < 0 {
			return malformed("field %d: %v", field, protowire.ParseError(n))
		}
		b = b[n:]
		if err := f(field, v); err != nil {
			return err
		}
	}
	return nil
}

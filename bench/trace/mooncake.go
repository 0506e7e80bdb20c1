package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxMillis is the last millisecond whose nanoseconds fit in an int64.
const maxMillis = math.MaxInt64 / 1_000_000

// mooncake parses {"timestamp": ms, "input_length": n, "output_length": n,
// "hash_ids": [...]}. It reads tokens, not a struct, because encoding/json
// takes a key twice, and in any case of letters, without a word.
type mooncake struct{}

var mooncakeKeys = []string{"timestamp", "input_length", "output_length", "hash_ids"}

// lineError carries the reason why a line is bad.
type lineError string

func (e lineError) Error() string { return string(e) }

func badf(format string, args ...any) error { return lineError(fmt.Sprintf(format, args...)) }

func (mooncake) parse(line []byte) (entry, string) {
	e, err := parseObject(line)
	if err == nil {
		return e, ""
	}
	var bad lineError
	if errors.As(err, &bad) {
		return entry{}, string(bad)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return entry{}, "not a JSON object: it ends too early"
	}
	return entry{}, "not a JSON object: " + err.Error()
}

func parseObject(line []byte) (entry, error) {
	var (
		e    entry
		seen [4]bool
		dec  = json.NewDecoder(bytes.NewReader(line))
	)
	dec.UseNumber()
	if open, err := dec.Token(); err != nil {
		return e, err
	} else if open != json.Delim('{') {
		return e, badf("not a JSON object")
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return e, err
		}
		key, _ := token.(string) // within an object, what is not a value is a string
		field := indexOf(mooncakeKeys, key)
		if field < 0 {
			return e, badf("unknown field %.40q", key)
		}
		if seen[field] {
			return e, badf("field %s occurs twice", key)
		}
		seen[field] = true
		switch field {
		case 0:
			e.at, err = readMillis(dec)
		case 1:
			e.isl, err = readLength(dec, key)
		case 2:
			e.osl, err = readLength(dec, key)
		case 3:
			e.blocks, err = readHashes(dec)
		}
		if err != nil {
			return e, err
		}
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return e, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return e, badf("more on the line than one JSON object")
	}
	for i, key := range mooncakeKeys {
		if !seen[i] {
			return e, badf("field %s is missing", key)
		}
	}
	if most := (e.isl + MooncakeBlock - 1) / MooncakeBlock; int64(len(e.blocks)) > most {
		return e, badf("%d hash_ids, but an input_length of %d has %d blocks of %d tokens",
			len(e.blocks), e.isl, most, MooncakeBlock)
	}
	return e, nil
}

func readNumber(dec *json.Decoder, key string) (string, error) {
	token, err := dec.Token()
	if err != nil {
		return "", err
	}
	n, ok := token.(json.Number)
	if !ok {
		return "", badf("%s is not a number", key)
	}
	return n.String(), nil
}

func readLength(dec *json.Decoder, key string) (int64, error) {
	text, err := readNumber(dec, key)
	if err != nil {
		return 0, err
	}
	n, reason := parseLength(text, key)
	if reason != "" {
		return 0, lineError(reason)
	}
	return n, nil
}

// readMillis reads a time in milliseconds, whole or not, as nanoseconds.
func readMillis(dec *json.Decoder) (int64, error) {
	text, err := readNumber(dec, "timestamp")
	if err != nil {
		return 0, err
	}
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil && whole >= 0 && whole <= maxMillis {
		return whole * 1_000_000, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case f < 0:
		return 0, badf("timestamp %.40s is negative", text)
	case err != nil || f >= maxMillis:
		return 0, badf("timestamp %.40s is too large", text)
	}
	return int64(math.Round(f * 1e6)), nil
}

func readHashes(dec *json.Decoder) ([]uint64, error) {
	if open, err := dec.Token(); err != nil {
		return nil, err
	} else if open != json.Delim('[') {
		return nil, badf("hash_ids is not a list")
	}
	var out []uint64
	for dec.More() {
		text, err := readNumber(dec, fmt.Sprintf("hash_ids[%d]", len(out)))
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseUint(text, 10, 64)
		switch {
		case err == nil:
			out = append(out, id)
		case strings.HasPrefix(text, "-"):
			return nil, badf("hash_ids[%d] %.40s is negative", len(out), text)
		default:
			return nil, badf("hash_ids[%d] %.40s is not a whole number of 64 bits", len(out), text)
		}
	}
	_, err := dec.Token()
	return out, err
}

// parseLength parses a number of tokens; reason is empty if it is good.
func parseLength(text, name string) (n int64, reason string) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case strings.HasPrefix(text, "-") && (err == nil || errors.Is(err, strconv.ErrRange)):
		return 0, fmt.Sprintf("%s %.40s is negative", name, text)
	case errors.Is(err, strconv.ErrRange) || n > maxTokens:
		return 0, fmt.Sprintf("%s %.40s is above %d", name, text, maxTokens)
	case err != nil:
		return 0, fmt.Sprintf("%s %.40q is not a whole number", name, text)
	}
	return n, ""
}

func indexOf(list []string, s string) int {
	for i, x := range list {
		if x == s {
			return i
		}
	}
	return -1
}

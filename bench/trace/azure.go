package trace

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

var azureColumns = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}

// azureTimes are the forms of TIMESTAMP in the traces published so far: without
// and with a time zone (none is UTC). A fraction of a second may follow in each.
var azureTimes = []string{
	"2006-01-02 15:04:05",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04:05Z07:00",
}

// azure parses CSV lines; it holds the place of each of azureColumns.
type azure [3]int

// azureHeader reads the header. known is false if no column is one of ours;
// reason is empty if all are, once each.
func azureHeader(line []byte) (columns azure, known bool, reason string) {
	columns = azure{-1, -1, -1}
	names := splitCSV(line)
	for i, name := range names {
		field := indexOf(azureColumns, name)
		if field < 0 {
			reason = fmt.Sprintf("unknown column %.40q", name)
			continue
		}
		known = true
		if columns[field] >= 0 {
			reason = fmt.Sprintf("column %s occurs twice", name)
		}
		columns[field] = i
	}
	for i, place := range columns {
		if place < 0 && reason == "" {
			reason = fmt.Sprintf("column %s is missing", azureColumns[i])
		}
	}
	return columns, known, reason
}

func (c azure) parse(line []byte) (e entry, reason string) {
	fields := splitCSV(line)
	if len(fields) != len(c) {
		return e, fmt.Sprintf("%d columns, the header has %d", len(fields), len(c))
	}
	for i, name := range azureColumns {
		if fields[c[i]] == "" {
			return e, fmt.Sprintf("%s is missing", name)
		}
	}
	at, ok := azureTime(fields[c[0]])
	if !ok {
		return e, fmt.Sprintf("TIMESTAMP %.40q is not a time", fields[c[0]])
	}
	// Whatever is to be told apart at nanoseconds must fit in 64 bits of them.
	if at.Year() < 1700 || at.Year() > 2250 {
		return e, fmt.Sprintf("TIMESTAMP %.40q is out of range", fields[c[0]])
	}
	e.at = at.UnixNano()
	if e.isl, reason = parseLength(fields[c[1]], azureColumns[1]); reason != "" {
		return e, reason
	}
	e.osl, reason = parseLength(fields[c[2]], azureColumns[2])
	return e, reason
}

func azureTime(text string) (time.Time, bool) {
	for _, layout := range azureTimes {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// splitCSV cuts a line at its commas. No field of these traces needs quotes, but
// some writers put them around every field.
func splitCSV(line []byte) []string {
	parts := bytes.Split(line, []byte{','})
	out := make([]string, len(parts))
	for i, p := range parts {
		s := strings.TrimSpace(string(p))
		if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
			s = s[1 : len(s)-1]
		}
		out[i] = s
	}
	return out
}

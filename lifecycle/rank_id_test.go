package lifecycle

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRankIDAsText(t *testing.T) {
	t.Parallel()
	for _, id := range []RankID{{}, {Worker: 7, Rank: 2}, {Worker: math.MaxUint64, Rank: math.MaxUint32}} {
		data, err := json.Marshal(map[RankID]RankID{id: id})
		require.NoError(t, err)
		require.JSONEq(t, `{"`+id.String()+`":"`+id.String()+`"}`, string(data))
		var back map[RankID]RankID
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, map[RankID]RankID{id: id}, back)
	}
	for _, text := range []string{"", "/", "1", "1/", "/1", "1/2/3", "-1/0", "1/4294967296", "18446744073709551616/0", " 1/0"} {
		id := RankID{Worker: 5}
		require.ErrorContains(t, id.UnmarshalText([]byte(text)), "must be worker/rank", text)
		require.Equal(t, RankID{Worker: 5}, id)
	}
}

package endpointpicker

import (
	"net/http"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modepb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// The names of the protocol: Gateway API Inference Extension, proposal 004.
const (
	headerChosen    = "x-gateway-destination-endpoint"
	namespaceChosen = "envoy.lb"

	namespaceSubset = "envoy.lb.subset_hint"
	keySubset       = "x-gateway-destination-endpoint-subset"

	namespaceServed = "envoy.lb"
	keyServed       = "x-gateway-destination-endpoint-served"
)

// pieceSize is how much of a body one message carries: with more than 64 KiB gateways
// may take the message for too large.
const pieceSize = 62 << 10

// mode is how a direction's body is sent. The answers must be in the same.
type mode = modepb.ProcessingMode_BodySendMode

const (
	duplex          = modepb.ProcessingMode_FULL_DUPLEX_STREAMED
	buffered        = modepb.ProcessingMode_BUFFERED
	bufferedPartial = modepb.ProcessingMode_BUFFERED_PARTIAL
	none            = modepb.ProcessingMode_NONE
	streamed        = modepb.ProcessingMode_STREAMED
)

func setHeader(name, value string) *corepb.HeaderValueOption {
	return &corepb.HeaderValueOption{
		Header: &corepb.HeaderValue{Key: name, RawValue: []byte(value)},
		// By default the value is added to one that the client has sent.
		AppendAction: corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// choice is where a request goes.
type choice struct {
	endpoints []string // tried in this order
	header    http.Header
}

// common is the part of an answer that has the request go there.
func (c *choice) common(hidden []string) *extproc.CommonResponse {
	set := make([]*corepb.HeaderValueOption, 0, 1+len(c.header))
	for name, values := range c.header {
		set = append(set, setHeader(strings.ToLower(name), strings.Join(values, ",")))
	}
	set = append(set, setHeader(headerChosen, strings.Join(c.endpoints, ",")))
	return &extproc.CommonResponse{
		HeaderMutation: &extproc.HeaderMutation{SetHeaders: set, RemoveHeaders: hidden},
		// A route may be chosen by the header.
		ClearRouteCache: true,
	}
}

// metadata says the same again, for load balancers that go by that.
func (c *choice) metadata() *structpb.Struct {
	return namespace(namespaceChosen, headerChosen, structpb.NewStringValue(strings.Join(c.endpoints, ",")))
}

func namespace(name, key string, value *structpb.Value) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		name: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{key: value}}),
	}}
}

func requestHeaders(r *extproc.CommonResponse) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extproc.HeadersResponse{Response: r},
	}}
}

func requestBody(r *extproc.CommonResponse) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{
		RequestBody: &extproc.BodyResponse{Response: r},
	}}
}

func responseHeaders() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{}}}
}

func responseBody(r *extproc.CommonResponse) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseBody{
		ResponseBody: &extproc.BodyResponse{Response: r},
	}}
}

func requestTrailers() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: &extproc.TrailersResponse{}}}
}

func responseTrailers() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extproc.TrailersResponse{}}}
}

// pieces sends a body back as it came, in messages of bearable size. The last says
// whether the body ends with it.
func pieces(body []byte, last bool, send func(*extproc.CommonResponse) error) error {
	for {
		n := min(len(body), pieceSize)
		end := n == len(body)
		if err := send(&extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{Mutation: &extproc.BodyMutation_StreamedResponse{
			StreamedResponse: &extproc.StreamedBodyResponse{Body: body[:n], EndOfStream: end && last},
		}}}); err != nil || end {
			return err
		}
		body = body[n:]
	}
}

// fromMap makes headers of a gateway's. A value is in either of two fields.
func fromMap(m *corepb.HeaderMap) http.Header {
	h := make(http.Header, len(m.GetHeaders()))
	for _, header := range m.GetHeaders() {
		h.Add(header.GetKey(), valueOf(header))
	}
	return h
}

func valueOf(h *corepb.HeaderValue) string {
	if raw := h.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return h.GetValue()
}

// subset returns the addresses that may be chosen, and whether the gateway said
// which. Gateways send a list, or a text with commas.
func subset(m *corepb.Metadata) (addresses []string, said bool) {
	value, said := m.GetFilterMetadata()[namespaceSubset].GetFields()[keySubset]
	if !said {
		return nil, false
	}
	add := func(text string) {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				addresses = append(addresses, part)
			}
		}
	}
	add(value.GetStringValue())
	for _, item := range value.GetListValue().GetValues() {
		add(item.GetStringValue())
	}
	return addresses, true
}

// servedBy returns the address of the endpoint that served, empty if the gateway does not say.
func servedBy(m *corepb.Metadata) string {
	return m.GetFilterMetadata()[namespaceServed].GetFields()[keyServed].GetStringValue()
}

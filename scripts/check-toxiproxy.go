// The server of toxiproxy's tests: ours, over HTTP.

package toxiproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/rs/zerolog"

	client "github.com/Shopify/toxiproxy/v2/client"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

const endpoint = "http://127.0.0.1:8475"

var (
	ErrProxyAlreadyStarted = errors.New("already started")
	api                    = client.NewClient(endpoint)
	number                 int64
)

type ApiServer struct {
	Collection *ProxyCollection
	Metrics    *metricsContainer
}

func NewServer(metrics *metricsContainer, _ zerolog.Logger) *ApiServer {
	return &ApiServer{Collection: &ProxyCollection{}, Metrics: metrics}
}

// Listen does nothing: our server listens already.
func (server *ApiServer) Listen(host, port string) {}

type ProxyCollection struct{}

func (collection *ProxyCollection) Clear() error {
	proxies, err := api.Proxies()
	for _, proxy := range proxies {
		if err := proxy.Delete(); err != nil {
			return err
		}
	}
	return err
}

type Proxy struct {
	Name, Listen, Upstream string
	Enabled                bool
	Toxics                 *ToxicCollection
	made                   *client.Proxy
}

func NewProxy(_ *ApiServer, name, listen, upstream string) *Proxy {
	name = fmt.Sprintf("%s-%d-%d", name, os.Getpid(), atomic.AddInt64(&number, 1))
	return &Proxy{Name: name, Listen: listen, Upstream: upstream, Toxics: &ToxicCollection{name}}
}

func (proxy *Proxy) Start() error {
	if proxy.Enabled {
		return ErrProxyAlreadyStarted
	}
	return proxy.Update(&Proxy{Listen: proxy.Listen, Upstream: proxy.Upstream, Enabled: true})
}

func (proxy *Proxy) Stop() {
	if proxy.Enabled {
		proxy.Update(&Proxy{Listen: proxy.Listen, Upstream: proxy.Upstream})
	}
}

func (proxy *Proxy) Update(input *Proxy) error {
	if proxy.made == nil {
		proxy.made = api.NewProxy()
		proxy.made.Name = proxy.Name
	}
	proxy.made.Listen, proxy.made.Upstream, proxy.made.Enabled = input.Listen, input.Upstream, input.Enabled
	err := proxy.made.Save()
	if err == nil {
		proxy.Listen, proxy.Upstream, proxy.Enabled = proxy.made.Listen, proxy.made.Upstream, proxy.made.Enabled
	}
	return err
}

type ToxicCollection struct{ proxy string }

func (collection *ToxicCollection) path() string {
	return endpoint + "/proxies/" + collection.proxy + "/toxics"
}

func (collection *ToxicCollection) AddToxicJson(data io.Reader) (*toxics.ToxicWrapper, error) {
	answer, err := http.Post(collection.path(), "application/json", data)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	body.ReadFrom(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(body.String())
	}
	made := &toxics.ToxicWrapper{Toxic: new(toxics.NoopToxic)}
	return made, json.Unmarshal(body.Bytes(), made)
}

func (collection *ToxicCollection) RemoveToxic(_ context.Context, name string) error {
	proxy, err := api.Proxy(collection.proxy)
	if err != nil {
		return err
	}
	return proxy.RemoveToxic(name)
}

func (collection *ToxicCollection) ResetToxics(ctx context.Context) {
	proxy, err := api.Proxy(collection.proxy)
	if err != nil {
		panic(err)
	}
	for _, toxic := range proxy.ActiveToxics {
		if err := proxy.RemoveToxic(toxic.Name); err != nil {
			panic(err)
		}
	}
}

// Tests of limit_data, slicer and slow_close over connections.

package toxics_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

func add(t *testing.T, proxy *toxiproxy.Proxy, kind string, toxic toxics.Toxic) {
	if _, err := proxy.Toxics.AddToxicJson(ToxicToJson(t, "", kind, "upstream", toxic)); err != nil {
		t.Fatal(err)
	}
}

func TestLimitDataClosesAfterItsBytes(t *testing.T) {
	WithEstablishedProxy(t, func(client, server net.Conn, proxy *toxiproxy.Proxy) {
		add(t, proxy, "limit_data", &toxics.LimitDataToxic{Bytes: 100})
		sent := bytes.Repeat([]byte("x"), 60)
		for i := 0; i < 2; i++ {
			if _, err := client.Write(sent); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		received, err := io.ReadAll(server)
		if err != nil || len(received) != 100 {
			t.Fatalf("%d bytes, %v", len(received), err)
		}
	})
}

func TestSlicerDelaysBetweenPieces(t *testing.T) {
	WithEstablishedProxy(t, func(client, server net.Conn, proxy *toxiproxy.Proxy) {
		add(t, proxy, "slicer", &toxics.SlicerToxic{AverageSize: 100, Delay: 20000})
		begun := time.Now()
		if _, err := client.Write(bytes.Repeat([]byte("x"), 1000)); err != nil {
			t.Fatal(err)
		}
		reads := 0
		for got := 0; got < 1000; reads++ {
			count, err := server.Read(make([]byte, 4096))
			if err != nil {
				t.Fatal(err)
			}
			got += count
		}
		AssertDeltaTime(t, "Slicer", time.Since(begun), 180*time.Millisecond, 20*time.Millisecond)
		if reads < 5 {
			t.Fatalf("%d reads", reads)
		}
	})
}

func TestSlowCloseDelaysTheEnd(t *testing.T) {
	WithEstablishedProxy(t, func(client, server net.Conn, proxy *toxiproxy.Proxy) {
		add(t, proxy, "slow_close", &toxics.SlowCloseToxic{Delay: 200})
		begun := time.Now()
		client.Close()
		if _, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		AssertDeltaTime(t, "Slow close", time.Since(begun), 200*time.Millisecond, 20*time.Millisecond)
	})
}

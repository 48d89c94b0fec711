#pragma once

// What the coordinator and virtrain-canary have always written to each other, byte for byte.

namespace virtrain::test {

inline constexpr const char* search_line =
    R"({"bytes":18446744073709551615,"canaries":{"tenant-a's canary":"vt-canary-bbbbbbbbbbbbbbbbbbbbbb","te)"
    R"(nant-b's own":"vt-canary-aaaaaaaaaaaaaaaaaaaaaa"},"roots":["/dev/shm","/tmp"],"seconds":180})";
inline constexpr const char* memory_line = R"({"functions":["0000:00:05.0"]})";
inline constexpr const char* peer_line =
    R"({"canaries":{"tenant-a's canary":"vt-canary-bbbbbbbbbbbbbbbbbbbbbb","tenant-b's own":"vt-canary-aaaa)"
    R"(aaaaaaaaaaaaaaaaaa"},"control":"tenant-b's own","own":["/sys/bus/pci/devices/0000:00:06.0/resource2")"
    R"(],"ranges":[{"address":18446744073709547520,"bytes":4194304,"name":"0000:03:00.0 region 2"},{"addres)"
    R"(s":4096,"bytes":4096,"name":"memory of the host"}],"seconds":60})";
inline constexpr const char* functions_line = R"({"known":["0x8086:0x29c0","0x1af4:0x10"]})";
inline constexpr const char* fill_line =
    R"({"canary":"vt-canary-aaaaaaaaaaaaaaaaaaaaaa","paths":["/dev/nvme0n1"],"seconds":240})";
inline constexpr const char* listen_line =
    R"({"address":"10.77.0.1","alias":"10.77.200.1","canary":"vt-canary-aaaaaaaaaaaaaaaaaaaaaa","ports":[10)"
    R"(24,40000],"vsock_port":47101})";
inline constexpr const char* reach_line =
    R"({"address":"10.77.0.1","canaries":{"tenant-a's canary":"vt-canary-bbbbbbbbbbbbbbbbbbbbbb","tenant-b')"
    R"(s own":"vt-canary-aaaaaaaaaaaaaaaaaaaaaa"},"scans":[{"address":"10.77.200.1","mac":"52:54:00:00:00:0)"
    R"(a","name":"tcp-scan","ports":[]},{"address":"10.77.200.2","mac":"52:54:00:00:00:0b","name":"tcp-scan)"
    R"(-control","ports":[1024,40000]}],"source":"10.77.200.3","targets":[{"address":"10.77.200.1","cid":0,)"
    R"("kind":"tcp4","name":"tcp/10.77.200.1 port 22","port":22},{"address":"fe80::a","cid":0,"kind":"tcp6")"
    R"(,"name":"ipv6/fe80::a port 22","port":22},{"address":"","cid":3,"kind":"vsock","name":"vsock/CID 3 p)"
    R"(ort 47101","port":47101},{"address":"10.77.200.1","cid":0,"kind":"arp","name":"arp/10.77.200.1","por)"
    R"(t":0},{"address":"ff02::1","cid":0,"kind":"ping6","name":"ping/ff02::1","port":0}]})";

inline constexpr const char* searched_line =
    R"({"files":3,"findings":2,"found":[{"canary":"own","count":1,"first":3,"last":3,"path":"/tmp/x"},{"can)"
    R"(ary":"theirs","count":9,"first":4096,"last":9007199254740993,"path":"/dev/vda"}],"rank":0,"record":")"
    R"(searched","scanned_bytes":50,"total_bytes":18446744073709551615,"unreadable":1})";
inline constexpr const char* found_memory_line =
    R"({"holds_data":true,"lacks":"","paths":["/dev/nvme0n1"],"rank":0,"record":"memory"})";
inline constexpr const char* peer_reads_line =
    R"({"devices":[],"foreign":[{"found":[],"name":"0000:03:00.0 region 2","refused":"map /dev/mem at 0x800)"
    R"(0000000: Operation not permitted","scanned":0,"total":4194304}],"memory":[{"found":["own"],"name":"m)"
    R"(emory","refused":"","scanned":4096,"total":4096}],"rank":0,"record":"peer"})";
inline constexpr const char* functions_seen_line =
    R"({"control":true,"functions":[{"address":"0000:41:00.0","model":"0x10de:0x20f1","opened":["resource1")"
    R"(]},{"address":"0000:42:00.0","model":"0x10de:0x20f1","opened":[]}],"opened":1,"others":2,"rank":0,"r)"
    R"(ecord":"functions","total":9})";
inline constexpr const char* filled_line =
    R"({"bytes":5,"rank":0,"read_back":true,"record":"filled","total":7})";
inline constexpr const char* listening_line =
    R"({"link_local":"fe80::a","mac":"52:54:00:00:00:0a","rank":0,"record":"listening","vsock":false})";
inline constexpr const char* reached_line =
    R"({"answers":[{"canary":"peer","how":"connected","target":"tcp/10.77.200.2 port 1024","who":""},{"cana)"
    R"(ry":"","how":"replied","target":"arp/10.77.200.2","who":"52:54:00:00:00:0b"}],"failed":["vsock/CID 3)"
    R"( port 47101: Address family not supported by protocol"],"heard":["peer"],"rank":0,"record":"reached")"
    R"(,"scans":[{"answered":5,"closed":[],"open":[1,2,3,4],"scanned":65535,"target":"tcp-scan","total":655)"
    R"(35},{"answered":2,"closed":[40000],"open":[1024],"scanned":2,"target":"tcp-scan-control","total":2}])"
    R"(})";

}  // namespace virtrain::test

#!/usr/bin/env bash
# An HDFS of one NameNode and two DataNodes for tests. README.md says what the verbs are.
source "$(dirname "$0")/cache.sh"

VERSION=3.4.2
JARS=$CACHE/hdfs-$VERSION

case $1 in
install)
    install_packages java openjdk-17-jre-headless mvn maven curl curl
    ;;
cached)
    [ -d "$JARS" ]
    ;;
build)
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh" "$JARS.new"' EXIT
    for artifact in hadoop-common hadoop-hdfs hadoop-hdfs-client; do
        echo "<dependency><groupId>org.apache.hadoop</groupId><artifactId>$artifact</artifactId>" \
            "<version>$VERSION</version></dependency>"
    done >"$fresh/dependencies"
    cat >"$fresh/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>paddlecloud.test</groupId><artifactId>hdfs</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>$(cat "$fresh/dependencies")</dependencies></project>
POM
    mkdir -p "$JARS.new"
    mvn -q -f "$fresh/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$JARS.new"
    mv "$JARS.new" "$JARS"
    ;;
seconds)
    echo 0
    ;;
start)
    directory=$2
    read -r rpc http < <(free_ports 2)
    mkdir -p "$directory"/{conf,nn,log,tmp,conf/webapps/hdfs,conf/webapps/datanode,conf/webapps/static}
    property() { echo "<property><name>$1</name><value>$2</value></property>"; }
    {
        echo '<configuration>'
        property fs.defaultFS "hdfs://127.0.0.1:$rpc"
        property hadoop.tmp.dir "$directory/tmp"
        # Groups without asking the system: users need not exist there.
        property hadoop.user.group.static.mapping.overrides "root=supergroup;paddle=paddle;eve=eve"
        echo '</configuration>'
    } >"$directory/conf/core-site.xml"
    {
        echo '<configuration>'
        property dfs.namenode.name.dir "file://$directory/nn"
        property dfs.replication 2
        property dfs.namenode.rpc-address "127.0.0.1:$rpc"
        property dfs.namenode.http-address "127.0.0.1:$http"
        property dfs.datanode.hostname 127.0.0.1
        property dfs.namenode.datanode.registration.ip-hostname-check false
        property dfs.permissions.enabled true
        property dfs.permissions.superusergroup supergroup
        property dfs.namenode.safemode.extension 0
        property dfs.namenode.safemode.min.datanodes 2
        property dfs.heartbeat.interval 1
        property dfs.namenode.fs-limits.min-block-size 1024
        property dfs.datanode.scan.period.hours -1
        # A file may be closed before its last block is reported.
        property dfs.namenode.file.close.num-committed-allowed 1
        # Which takes a moment, as under load.
        property dfs.blockreport.incremental.intervalMsec 20
        property dfs.client.block.write.replace-datanode-on-failure.policy NEVER
        echo '</configuration>'
    } >"$directory/conf/hdfs-site.xml"
    cat >"$directory/conf/log4j.properties" <<'LOG'
log4j.rootLogger=WARN,F
log4j.appender.F=org.apache.log4j.ConsoleAppender
log4j.appender.F.target=System.err
log4j.appender.F.layout=org.apache.log4j.PatternLayout
log4j.appender.F.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
LOG
    export HADOOP_USER_NAME=root
    options=(--add-opens=java.base/java.lang=ALL-UNNAMED -XX:+UseSerialGC -XX:TieredStopAtLevel=1
        -XX:-UsePerfData -Djava.net.preferIPv4Stack=true "-Dhadoop.log.dir=$directory/log"
        -cp "$directory/conf:$JARS/*")
    server=org.apache.hadoop.hdfs.server
    java -Xmx256m "${options[@]}" $server.namenode.NameNode -format -nonInteractive \
        >"$directory/log/format.log" 2>&1 </dev/null
    setsid java -Xmx384m "${options[@]}" $server.namenode.NameNode \
        >"$directory/log/namenode.log" 2>&1 </dev/null &
    pid=$!
    echo $pid >"$directory/namenode.pid"
    for number in 1 2; do
        mkdir -m 700 "$directory/data$number"
        setsid java -Xmx256m "${options[@]}" $server.datanode.DataNode \
            -D "dfs.datanode.data.dir=file://$directory/data$number" -D dfs.datanode.address=127.0.0.1:0 \
            -D dfs.datanode.ipc.address=127.0.0.1:0 -D dfs.datanode.http.address=127.0.0.1:0 \
            >"$directory/log/datanode$number.log" 2>&1 </dev/null &
        echo $! >"$directory/datanode$number.pid"
    done
    is_ready() {
        curl -s "http://127.0.0.1:$http/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState" >"$directory/jmx"
        grep -q '"NumLiveDataNodes" : 2' "$directory/jmx" && grep -q '"FSState" : "Operational"' "$directory/jmx"
    }
    await $pid "$directory/log/namenode.log" is_ready
    # The cloud's user is no superuser: it has a directory.
    shell=(java "${options[@]}" org.apache.hadoop.fs.FsShell)
    "${shell[@]}" -mkdir /paddle >&2
    "${shell[@]}" -chown paddle:paddle /paddle >&2
    echo "PADDLE_TEST_HDFS=hdfs://127.0.0.1:$rpc/paddle"
    ;;
test)
    cargo test --release --locked --workspace --lib files::stores::hdfs
    cargo test --release --locked --workspace --test cloud stores::hdfs
    make --no-print-directory build
    .venv/bin/pytest -c python/pyproject.toml python/tests/test_cluster_train.py -k hdfs
    ;;
stop)
    end_processes "$2"/datanode1.pid "$2"/datanode2.pid "$2"/namenode.pid
    ;;
esac

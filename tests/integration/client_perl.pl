#!/usr/bin/perl
# A client of kept sandboxes that was written from docs/kept.md alone; it shares nothing with ours. Prints what it was told, line by line.
use strict;
use warnings;
use JSON::PP;
use Socket;

my ($state, $name) = @ARGV;
my ($yes, $json) = (JSON::PP::true, JSON::PP->new->canonical);

sub dial {
    socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
    connect($socket, pack_sockaddr_un("$state/sandboxes/$name/control")) or die "connect: $!";
    return $socket;
}

sub ask {
    my ($socket, %request) = @_;
    my $text = encode_json({pinfold => 1, %request});
    my $bytes = pack("N", length $text) . $text;
    while (length $bytes) {
        my $size = syswrite($socket, $bytes) // die "write: $!";
        substr($bytes, 0, $size) = "";
    }
}

sub exactly {
    my ($socket, $size) = @_;
    my $bytes = "";
    while (length($bytes) < $size) {
        sysread($socket, $bytes, $size - length $bytes, length $bytes) or die "the supervisor hung up";
    }
    return $bytes;
}

sub reply { my ($socket) = @_; return decode_json(exactly($socket, unpack("N", exactly($socket, 4)))) }

sub lend {
    my $socket = dial();
    ask($socket, id => 1, verb => "lend");
    return ($socket, reply($socket)->{ok}{lent});
}

sub all { my ($socket) = @_; my $bytes = ""; while (sysread($socket, my $part, 4096)) { $bytes .= $part } return $bytes }

my $talk = dial();
ask($talk, id => 1, verb => "exec", args => ["sh", "-c", "echo \$A; pwd; echo err >&2; exit 3"], env => {A => "b"}, cwd => "/tmp", output => "capture");
die unless reply($talk)->{event} eq "started";
my $result = reply($talk)->{result};
print $json->encode([@$result{qw(exit_code stdout stderr)}]), "\n";

my ($in, $from) = lend();
my ($out, $to) = lend();
ask($talk, id => 2, verb => "exec", args => ["cat"], stdin => $yes, stdout => $yes, lent => [$from, $to]);
reply($talk);
syswrite($in, "typed\n");
shutdown($in, 1);
print $json->encode([all($out), reply($talk)->{result}{exit_code}]), "\n";

ask($talk, id => 3, verb => "exec", args => ["sh", "-c", "for i in 1 2 3; do echo \$i; done; read x"], detach => $yes, interactive => $yes);
my $started = reply($talk);
my ($typed, $typing) = lend();
my ($lines, $taking) = lend();
ask($talk, id => 4, verb => "attach", exec => $started->{exec}, since => $started->{seq}, stdin => $yes, stdout => $yes, lent => [$typing, $taking]);
print $json->encode([reply($talk)->{event}]), "\n";
syswrite($typed, "end\n");
print $json->encode([reply($talk)->{result}{exit_code}, all($lines)]), "\n";

ask($talk, id => 5, verb => "nonsense");
print $json->encode([@{reply($talk)->{error}}{qw(kind pointer)}]), "\n";
ask($talk, id => 6, verb => "exec", args => ["true"], surprise => 1);
print $json->encode([@{reply($talk)->{error}}{qw(kind pointer)}]), "\n";
ask($talk, id => 7, verb => "stop", grace_ms => 1000);
print $json->encode(reply($talk)), "\n";

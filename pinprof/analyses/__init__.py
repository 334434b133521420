"""What a trace shows: one public function per module, from tables to a frozen result; times in int64 ns."""

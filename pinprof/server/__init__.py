"""The server for programs that write programs: the commands as tools of the Model Context Protocol."""

"""What the scripts beside this folder share: the machine, servers, peers, one measured run, folders of results."""

"""What runs inside the sandbox beside the contestant's code. Imports nothing of ours outside this folder."""

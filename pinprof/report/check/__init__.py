"""What a gate says: as text, and as GitHub, SARIF and JUnit read it."""

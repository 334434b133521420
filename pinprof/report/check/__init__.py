"""The check as text, and as GitHub, SARIF and JUnit read it."""

export function ClusterPage() { return <p>ClusterPage</p>; }

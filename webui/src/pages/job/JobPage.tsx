export function JobPage() { return <p>JobPage</p>; }

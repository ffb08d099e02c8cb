import { useEffect, useState } from "react";

/** Return the time in milliseconds; it changes every `seconds`, so that ages on the screen stay true. */
export function useNow(seconds: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}

;; The product of an unsigned 8-bit matrix and a signed vector, in 32-bit integers, by SIMD.
;;
;; products(row, stride, count, vector, blocks, out):
;;   row     address of the first row; rows lie `stride` bytes apart
;;   count   of rows, at least 1
;;   vector  address of 16 * blocks signed 16-bit numbers, zeros where a row's numbers end;
;;           up to 15 bytes beyond a row are read (and meet those zeros)
;;   out     address of `count` signed 32-bit products
(module
  (memory (export "memory") 1)
  (func (export "products")
    (param $row i32) (param $stride i32) (param $count i32)
    (param $vector i32) (param $blocks i32) (param $out i32)
    (local $at i32) (local $with i32) (local $left i32)
    (local $codes v128) (local $sum v128)
    (loop $rows
      (local.set $at (local.get $row))
      (local.set $with (local.get $vector))
      (local.set $left (local.get $blocks))
      (local.set $sum (v128.const i32x4 0 0 0 0))
      (loop $columns
        (local.set $codes (v128.load align=1 (local.get $at)))
        (local.set $sum (i32x4.add (local.get $sum)
          (i32x4.dot_i16x8_s
            (i16x8.extend_low_i8x16_u (local.get $codes)) (v128.load (local.get $with)))))
        (local.set $sum (i32x4.add (local.get $sum)
          (i32x4.dot_i16x8_s
            (i16x8.extend_high_i8x16_u (local.get $codes)) (v128.load offset=16 (local.get $with)))))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (local.set $with (i32.add (local.get $with) (i32.const 32)))
        (br_if $columns (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
      (i32.store (local.get $out)
        (i32.add
          (i32.add (i32x4.extract_lane 0 (local.get $sum)) (i32x4.extract_lane 1 (local.get $sum)))
          (i32.add (i32x4.extract_lane 2 (local.get $sum)) (i32x4.extract_lane 3 (local.get $sum)))))
      (local.set $out (i32.add (local.get $out) (i32.const 4)))
      (local.set $row (i32.add (local.get $row) (local.get $stride)))
      (br_if $rows (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))))
